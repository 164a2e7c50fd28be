"""Matches the lines of a log with the signatures of failures."""
