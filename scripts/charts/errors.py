"""What is raised when a chart, a schema or a script does not accept Holdfast's output."""

from __future__ import annotations


class NotHeld(Exception):
    """The rendered objects are not accepted; the text gives the reason."""
