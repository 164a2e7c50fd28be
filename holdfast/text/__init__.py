"""Text for people: numbers, suggestions, remedies, and user text made safe to print. Pure."""
