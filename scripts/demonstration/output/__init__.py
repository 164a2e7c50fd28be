"""What the demo shows at its end: the summary, the picture and the recording."""
