"""What became of a write of a job's comment, as the worker says it and the log shows it."""

from __future__ import annotations

WRITTEN = "written"
ALREADY = "already written"
NOT_CONFIRMED = "not confirmed: agents of other nodes kept changing the comment"
