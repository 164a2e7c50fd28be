"""``scripts/test fresh``: tests the set-up on machines with only a minimal Debian."""
