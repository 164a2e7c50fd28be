"""The launcher's lines in the job's log. Each begins with ``holdfast:``."""

from __future__ import annotations

import sys

from holdfast.text import printable


def say(text: str) -> None:
    """Writes one line. A log that cannot be written must not end the job."""
    try:
        sys.stderr.write(f"holdfast: {printable.line(' '.join(text.split()))}\n")
        sys.stderr.flush()
    except OSError:
        pass
