"""Which checkpoints are whole, told without torch and without touching them."""
