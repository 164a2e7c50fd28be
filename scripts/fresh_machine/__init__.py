"""``scripts/test fresh``: machines with nothing but a minimal Debian, on which the set-up has to work."""
