"""Ends or stops tasks of attempts that a newer one may have replaced: decision 41."""
