"""The process that runs pyslurm for ``holdfast.slurm.pyslurm.client``. The only module that imports it.

It is a process of its own because pyslurm blocks without a bound, libslurm ends the whole process on a
fatal error, and pyslurm is GPL-2.0-only (docs/decisions/031).

One JSON object per line in each direction. The first line that it writes reports what was imported:
``{"pyslurm": "25.11.2", "built_for": [25, 11]}`` or ``{"missing": TEXT}`` or ``{"broken": TEXT}``. Then each
request ``{"call": NAME, …}`` has one reply: ``{"value": …}``, or ``{"error": TEXT}`` with Slurm's own message.
It exits when its standard input is closed.

Facts of pyslurm 25.11.2 with Slurm 25.11.7, and of 24.11.0 with 24.11.5:

* A Node has no InstanceId, no InstanceType and no active reservation.
* Free text that is not UTF-8 raises ``UnicodeDecodeError`` on access. The text ``None`` reads as no text.
* An empty string means "do not change": a comment cannot be cleared.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

_FIELDS = (
    "name", "state", "reason", "reason_user", "reason_time", "comment", "boot_time", "slurmd_start_time",
)  # fmt: skip
_MORE_FIELDS = ("partitions", "effective_cpus", "configured_gres")
"""Read only for nodes that are asked for by name, as ``SlurmNode`` promises no more."""

_UNKNOWN_NODE = ("does not exist", "invalid node name")


def main() -> int:
    """Serve requests until standard input is closed."""
    replies = _reply_stream()
    pyslurm, first = _imported()
    _write(replies, first)
    if pyslurm is None:
        return 1
    calls = Calls(pyslurm)
    for line in sys.stdin:
        _write(replies, calls.reply(json.loads(line)))
    return 0


def _reply_stream() -> TextIO:
    """Standard output as it was given; what libslurm prints there goes to standard error from now on."""
    private = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(private, "w", encoding="utf-8")


def _write(replies: TextIO, row: Mapping[str, Any]) -> None:
    replies.write(json.dumps(row) + "\n")
    replies.flush()


def _imported() -> tuple[Any, dict[str, Any]]:
    """pyslurm, and the line that reports it. It does not start libslurm yet: the client first compares
    the release that pyslurm was built for with the one of this machine.
    """
    os.environ["PYSLURM_DISABLE_AUTO_INIT"] = "1"
    try:
        import pyslurm  # noqa: PLC0415 - optional
    except ModuleNotFoundError as error:
        return None, {"missing": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever keeps it from loading is the message
        return None, {"broken": str(error)}
    return pyslurm, {
        "pyslurm": str(pyslurm.__version__),
        "built_for": [int(part) for part in pyslurm.slurm_api_version()[:2]],
    }


class Calls:
    """The requests, each one of the RPCs that Holdfast sends."""

    def __init__(self, pyslurm: Any):
        self._pyslurm = pyslurm
        self._started = False
        self._calls: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
            "release": self._release,
            "nodes": self._nodes,
            "update": self._update,
            "clock": self._clock,
        }

    def reply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to one request. Every failure of pyslurm becomes ``error``."""
        try:
            if not self._started:
                self._pyslurm.slurm_init()
                self._started = True
            return {"value": self._calls[request["call"]](request)}
        except Exception as error:  # noqa: BLE001 - the client decides what it means
            return {"error": str(error) or type(error).__name__}

    def _release(self, _: Mapping[str, Any]) -> str:
        """slurmctld's own version, e.g. ``25.11.7``."""
        return str(self._pyslurm.slurmctld.Config.load().version)

    def _nodes(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Rows of all nodes, or of those named that Slurm knows."""
        names = request["names"]
        if not names:
            return [row_of(node) for node in self._all().values()]
        if len(names) == 1:
            return [row_of(node, more=True) for node in self._one(names[0])]
        known = self._all()
        return [row_of(known[name], more=True) for name in names if name in known]

    def _all(self) -> dict[str, Any]:
        return {node.name: node for node in self._pyslurm.Nodes.load().values()}

    def _one(self, name: str) -> Iterable[Any]:
        try:
            return [self._pyslurm.Node.load(name)]
        except self._pyslurm.RPCError as error:
            if any(text in str(error).lower() for text in _UNKNOWN_NODE):
                return []
            raise

    def _update(self, request: Mapping[str, Any]) -> None:
        """Changes ``state``, ``reason`` and ``comment`` of a hostlist in one RPC."""
        changes = {
            name: request[name] for name in ("state", "reason", "comment") if name in request
        }
        self._pyslurm.Node(name=request["hosts"]).modify(self._pyslurm.Node(**changes))

    def _clock(self, _: Mapping[str, Any]) -> int:
        """slurmctld's time in epoch seconds."""
        return int(self._pyslurm.slurmctld.diag().request_time)


def row_of(node: Any, *, more: bool = False) -> dict[str, Any]:
    """The fields of a ``pyslurm.Node`` that Holdfast reads. ``doubtful`` instead: pyslurm cannot read it
    exactly, so scontrol has to.
    """
    try:
        row = {field: getattr(node, field) for field in _FIELDS + (_MORE_FIELDS if more else ())}
    except UnicodeDecodeError:
        return {"name": node.name, "doubtful": True}
    # A reason that has a time and no text is the text "None".
    if row["reason_time"] and not row["reason"]:
        return {"name": node.name, "doubtful": True}
    return row


if __name__ == "__main__":
    sys.exit(main())
