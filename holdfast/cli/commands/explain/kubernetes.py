"""The Kubernetes side of a node for ``holdfast explain``, read by ``holdfast bridge --node`` in a separate
process: the client for Kubernetes is heavy, and the API server may not answer.
"""

from __future__ import annotations

import json
from typing import Any

from holdfast.adapters.command import complete
from holdfast.errors import CommandError
from holdfast.own_program import own_program

_ANSWER_S = 15.0


def look(name: str) -> tuple[dict[str, Any] | None, str]:
    """What the bridge sees of the node with that name in Slurm or in Kubernetes, and why nothing is known."""
    argv = own_program("holdfast", "bridge", f"--node={name}", "--json")
    try:
        done = complete(argv, timeout_s=_ANSWER_S)
        if done.out:
            found = json.loads(done.out)
            return (found, "") if isinstance(found, dict) else (None, "unexpected output")
    except CommandError as error:
        return None, error.problem
    except ValueError as error:
        return None, f"unexpected output: {error}"
    lines = done.err.strip().splitlines() or ["no output"]
    return None, lines[-1].removeprefix("holdfast bridge: ")
