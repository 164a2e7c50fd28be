"""The one broad ``except`` of the hooks: our own faults are loud, and never evidence against a
node.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from holdfast.errors import ConfigError, HoldfastError
from holdfast.vocabulary import NODE_IN_SERVICE


def guarded(name: str, hook: Callable[[], int]) -> int:
    """The hook's exit status; 0 (the node stays in service) whatever goes wrong in it."""
    try:
        return hook()
    except ConfigError as error:
        for line in str(error).splitlines():
            complain(f"holdfast-{name}: {line}; the node stays in service")
    except (HoldfastError, OSError) as error:
        complain(f"holdfast-{name}: {error}; the node stays in service")
    except Exception as error:  # noqa: BLE001 - the one place that may
        complain(f"holdfast-{name}: a fault of ours: {type(error).__name__}: {error}")
        if os.environ.get("HOLDFAST_DEBUG"):
            traceback.print_exc()
    return NODE_IN_SERVICE


def complain(text: str) -> None:
    """One line for slurmd's log; where even that fails there is nobody to tell."""
    try:
        sys.stderr.write(" ".join(text.split()) + "\n")
        sys.stderr.flush()
    except OSError:
        pass
