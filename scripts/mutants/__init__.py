"""Mutation tests: change the code that decides about nodes in small ways, and see that a test fails each time."""
