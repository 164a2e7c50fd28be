"""Slurm over RPC through pyslurm: nodes, drains and comments without a process for each call.

Optional: ``slurm: {adapter: pyslurm}``. Jobs, accounting and everything that pyslurm cannot report stay
with scontrol and its like, which ``SlurmPyslurm`` inherits. Hooks and agent never use it. Why a worker
process, and what it costs: docs/decisions/031.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.errors import CommandError, ConfigError, Refused, Unavailable
from holdfast.node_names import natural
from holdfast.own_program import own_program
from holdfast.slurm.cli import NO_ANSWER, SlurmCli
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.hostlist import compress
from holdfast.slurm.parse import values
from holdfast.slurm.pyslurm.worker_process import WorkerProcess
from holdfast.text.printable import folded
from holdfast.vocabulary import SlurmName

START_S = 20.0
"""Bound of the worker's start: Python, and pyslurm's import. A busy machine takes most of a second."""
INSTANCE_ID_S = 60.0
"""How long an InstanceId counts without a new slurmd on the node. A person may set one by hand."""

_WORKER = tuple(own_program("holdfast.slurm.pyslurm.worker"))
_VERSION = ("scontrol", "--version")
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_OTHER_PROTOCOL = re.compile(r"incompatible versions of client and server", re.IGNORECASE)
_OR_COMMANDS = "or set slurm.adapter: commands"


class _Unfit(Exception):
    """This pyslurm cannot be used with this cluster. The text is the whole message."""


class _Identity(NamedTuple):
    """A node's InstanceId, the start of the slurmd that reported it, and when it was read (monotonic)."""

    instance_id: str
    slurmd_started_at: datetime | None
    read_at: float


class SlurmPyslurm(SlurmCli):
    """``SlurmCli`` whose questions about nodes and writes to nodes go through pyslurm.

    Same values and same errors. ``timeout_s`` bounds each RPC: a worker that does not reply in time is
    killed, and the next call starts another. ``reservation`` of a node is always empty. ``worker`` is the
    command that starts the worker process. May be used by several threads; calls wait for one another.
    """

    def __init__(
        self,
        timeout_s: float,
        bin_dir: str = "",
        token_file: str = "",
        worker: Sequence[str] = _WORKER,
    ):
        super().__init__(timeout_s, bin_dir, token_file)
        self._argv = tuple(worker)
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._identities: dict[SlurmName, _Identity] = {}

    def check(self) -> None:
        """Raises ``ConfigError``, one line with the remedy, where pyslurm is missing or is not built for
        the cluster's release. A slurmctld that does not answer is no error: nothing is known then.
        """
        try:
            with self._lock:
                self._ready()
        except _Unfit as error:
            raise ConfigError(f"slurm.adapter: {error}") from None
        except CommandError:
            pass

    def close(self) -> None:
        """End the worker process. A later call starts another."""
        with self._lock:
            self._drop()

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        """All nodes, or those named, sorted as Slurm does. An unknown name raises ``Refused``."""
        return self._with_instance_ids(self._snapshot(self._checked(names)), whole=not names)

    def nodes_fast(self) -> list[SlurmNode]:
        """Every node without ``instance_id``: one RPC."""
        return self._snapshot(())

    def drain(self, names: Sequence[SlurmName], reason: str) -> None:
        self._update(names, state="DRAIN", reason=folded(reason))

    def undrain(self, names: Sequence[SlurmName]) -> None:
        self._update(names, state="UNDRAIN")

    def comment(self, names: Sequence[SlurmName], text: str) -> None:
        if text:
            self._update(names, comment=folded(text))
        else:  # pyslurm takes an empty text for "no change"
            super().comment(names, text)

    def clock(self) -> datetime:
        at = values.epoch(self._ask("clock"))
        if at is None:
            raise Unavailable(["pyslurm", "clock"], "answer not understood: no time")
        return at

    def _update(self, names: Sequence[SlurmName], **changes: str) -> None:
        self._ask("update", hosts=compress(self._checked(names, some=True)), **changes)

    def _snapshot(self, names: Sequence[SlurmName]) -> list[SlurmNode]:
        rows = self._ask("nodes", names=list(names))
        found = {row["name"]: row for row in rows}
        missing = [name for name in names if name not in found]
        if missing:
            raise Refused(["pyslurm", "nodes"], f"Slurm knows no node {', '.join(missing)}")
        doubtful = sorted(SlurmName(name) for name, row in found.items() if row.get("doubtful"))
        exact = {name: node_of(row) for name, row in found.items() if name not in doubtful}
        if doubtful:
            exact |= {node.name: node for node in super().nodes(doubtful)}
        return [exact[name] for name in sorted(exact, key=natural)]

    def _with_instance_ids(self, nodes: list[SlurmNode], *, whole: bool) -> list[SlurmNode]:
        """The nodes with their InstanceIds, which pyslurm does not report: from an earlier scontrol call,
        or from one now where a node is new, its slurmd started again, or the answer is too old.
        """
        now = time.monotonic()
        stale = [node.name for node in nodes if not self._is_known(node, now)]
        if stale:
            for node in self._of_scontrol(stale, len(nodes) if whole else 0):
                self._identities[node.name] = _Identity(
                    node.instance_id, node.slurmd_started_at, now
                )
        if whole:
            present = {node.name for node in nodes}
            self._identities = {k: v for k, v in self._identities.items() if k in present}
        return [
            dataclasses.replace(node, instance_id=self._identities[node.name].instance_id)
            if node.name in self._identities
            else node
            for node in nodes
        ]

    def _is_known(self, node: SlurmNode, now: float) -> bool:
        known = self._identities.get(node.name)
        return (
            known is not None
            and known.slurmd_started_at == node.slurmd_started_at
            and now - known.read_at < INSTANCE_ID_S
        )

    def _of_scontrol(self, names: Sequence[SlurmName], of_all: int) -> list[SlurmNode]:
        """What scontrol reports of them; of every node where half of all ``of_all`` are wanted."""
        if 2 * len(names) > of_all > 0:
            return super().nodes()
        try:
            return super().nodes(names)
        except Refused:  # one of them left the cluster meanwhile
            return super().nodes()

    def _ask(self, call: str, **words: Any) -> Any:
        """The reply of the worker. Raises ``Unavailable`` and ``Refused``."""
        argv = ["pyslurm", call]
        with self._lock:
            try:
                reply = self._ready().ask({"call": call, **words}, argv, self._timeout_s)
            except _Unfit as error:  # slurmctld may have another release tomorrow
                raise Unavailable(argv, str(error)) from None
            except Unavailable:
                self._drop()
                raise
            text = reply.get("error")
            if text is None:
                return reply["value"]
            if not NO_ANSWER.search(text):
                raise Refused(argv, "refused by Slurm", text)
            self._drop()  # the next call compares the releases again: slurmctld may come back as another
            raise Unavailable(argv, "no answer", text)

    def _ready(self) -> WorkerProcess:
        """The running worker, started and found fit where there is none.

        Raises ``Unavailable``, and ``_Unfit`` where pyslurm is not for this cluster.
        """
        token = self._token(["pyslurm"])
        if self._worker is not None and self._worker.token == token and self._worker.alive():
            return self._worker
        self._drop()
        worker = WorkerProcess(self._argv, token)
        try:
            self._compare_releases(worker)
        except (CommandError, _Unfit):
            worker.kill()
            raise
        self._worker = worker
        return worker

    def _compare_releases(self, worker: WorkerProcess) -> None:
        try:
            hello = worker.read(["pyslurm", "import"], START_S)
        except Unavailable as error:
            if worker.alive():
                raise
            hello = {"broken": error.output or error.problem}
        if "missing" in hello:
            raise _Unfit(
                f"pyslurm is not installed for {sys.executable} ({hello['missing']}); "
                f"install the one for this cluster's Slurm, {_OR_COMMANDS}"
            )
        if "broken" in hello:
            raise _Unfit(
                f"pyslurm cannot be loaded ({folded(hello['broken'])}); "
                f"build it against this cluster's Slurm, {_OR_COMMANDS}"
            )
        built_for = "{}.{:02}".format(*hello["built_for"])
        # First that of this machine: libslurm of another release may crash on the first RPC.
        with contextlib.suppress(CommandError):
            _same(hello["pyslurm"], built_for, self._run(_VERSION), "this machine has")
        argv = ["pyslurm", "release"]
        reply = worker.ask({"call": "release"}, argv, self._timeout_s)
        text = reply.get("error", "")
        if _OTHER_PROTOCOL.search(text):
            raise _Unfit(
                f"pyslurm {hello['pyslurm']} is built for Slurm {built_for}, and slurmctld refuses "
                f"that release ({text}); install the pyslurm for the cluster's, {_OR_COMMANDS}"
            )
        if text:
            raise Unavailable(argv, "no answer", text)
        _same(hello["pyslurm"], built_for, reply["value"], "the cluster runs")

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


def _same(pyslurm: str, built_for: str, version: str, who_has: str) -> None:
    """Raises ``_Unfit`` when ``version`` names another release than pyslurm was built for."""
    match = _RELEASE.search(version)
    if match and match[0] != built_for:
        raise _Unfit(
            f"pyslurm {pyslurm} is built for Slurm {built_for}, and {who_has} {match[0]}; "
            f"install the pyslurm for {match[0]}, {_OR_COMMANDS}"
        )


def node_of(row: Mapping[str, Any]) -> SlurmNode:
    """A node from what the worker read of a ``pyslurm.Node``. Pure. ``instance_id`` stays empty."""
    known, unknown = values.states(row["state"].split("+"))
    reason = row["reason"] or ""
    gres = row.get("configured_gres") or {}
    return SlurmNode(
        name=SlurmName(row["name"]),
        states=known,
        unknown_states=unknown,
        reason=reason,
        reason_user=(row["reason_user"] or "") if reason else "",
        reason_at=values.epoch(row["reason_time"]) if reason else None,
        comment=row["comment"] or "",
        boot_at=values.epoch(row["boot_time"]),
        slurmd_started_at=values.epoch(row["slurmd_start_time"]),
        partitions=tuple(row.get("partitions") or ()),
        cpus=row.get("effective_cpus") or 0,
        gpus=_gpus(gres.items()),
    )


def _gpus(gres: Iterable[tuple[str, Any]]) -> int:
    return sum(int(count) for name, count in gres if name.split(":")[0] == "gpu")
