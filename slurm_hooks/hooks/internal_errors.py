"""The only broad ``except`` of the hooks: internal errors are reported, and never count against a
node."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from holdfast.errors import ConfigError, HoldfastError
from holdfast.vocabulary import NODE_IN_SERVICE


def guarded(name: str, hook: Callable[[], int]) -> int:
    """The hook's exit status; 0 (the node stays in service) after any error."""
    try:
        return hook()
    except ConfigError as error:
        for line in str(error).splitlines():
            complain(f"holdfast-{name}: {line}; the node stays in service")
    except (HoldfastError, OSError) as error:
        complain(f"holdfast-{name}: {error}; the node stays in service")
    except Exception as error:  # noqa: BLE001 - the only place that may
        complain(f"holdfast-{name}: internal error: {type(error).__name__}: {error}")
        if os.environ.get("HOLDFAST_DEBUG"):
            traceback.print_exc()
    return NODE_IN_SERVICE


def complain(text: str) -> None:
    """Write one line to stderr, for slurmd's log. Errors are ignored: there is nowhere to report
    them."""
    try:
        sys.stderr.write(" ".join(text.split()) + "\n")
        sys.stderr.flush()
    except OSError:
        pass
