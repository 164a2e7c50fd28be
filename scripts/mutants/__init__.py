"""Mutation tests: each small change to the code that decides about nodes must make a test fail."""
