"""The launcher's voice: short lines in the job's log, told from the job's own by ``holdfast:``."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """One line. A log that cannot be written must not end the job."""
    try:
        sys.stderr.write(f"holdfast: {' '.join(text.split())}\n")
        sys.stderr.flush()
    except OSError:
        pass
