"""What the threads of a campaign share: its faults, violations, counts and the drains of people."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from testbed.box import Box
from testbed.errors import SandboxError

FAULTS: tuple[tuple[str, ...], ...] = (
    ("gpu-lost", "--gpu", "3"), ("xid", "79", "--gpu", "1"), ("xid", "48"), ("xid", "94"), ("ecc", "--gpu", "2"),
    ("nvlink-down",), ("row-remap-pending",), ("thermal",), ("nvml-hung",), ("nvml-unkillable",),
    ("gpu-count", "7"), ("pcie-width",), ("mount-gone", "/mnt/inference"), ("mount-hung", "/mnt/inference"),
    ("mount-full", "/mnt/inference"), ("mount-read-only", "/mnt/inference"), ("mount-gone",), ("mount-hung",),
    ("disk-full",), ("state-full",), ("state-read-only",), ("state-hung",), ("run-full",),
    ("munge-down",), ("power-off",), ("power-cycle",), ("network-cut",), ("slurmd-killed",), ("agent-killed",),
    ("clock-skew", "--seconds", "-3600"),
    ("clock-skew", "--seconds", "90"),
)  # fmt: skip
"""Each node draws its faults from these. Each is over once it is healed; none waits for a person."""

SAVED_S = 7.0
"""slurmctld saves a node's state up to 5 s after a change; what was not saved dies with it."""
AT_ONCE_S = 0.25
"""Between a person's drain and the agent's own: Slurm keeps the later reason, and accounting too (decision
19). The agent looked before both."""


def kernel_state(pid: int) -> str:
    """A process' state and where it sleeps in the kernel: 'S do_wait'."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"{state} {Path(f'/proc/{pid}/wchan').read_text()}"
    except OSError:
        return "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken rule, and how things stood."""

    at_s: float
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:7.1f} s  {self.rule}: {self.what}"


@dataclass(slots=True)
class Count:
    """What was done, for the report."""

    done: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str) -> None:
        with self._lock:
            self.done[what] = self.done.get(what, 0) + 1


class Campaign:
    """What its threads share. ``faults``: how many are injected in all; ``say`` takes a line now and then.
    ``kinds``: the faults to draw from, by name; empty: all of ``FAULTS``.
    """

    def __init__(
        self,
        box: Box,
        *,
        seed: str,
        faults: int,
        jobs: int,
        say: Callable[[str], None],
        kinds: Sequence[str] = (),
    ) -> None:
        self.kinds = tuple(words for words in FAULTS if not kinds or words[0] in kinds)
        self.box, self.seed, self.jobs, self.say = box, seed, jobs, say
        self.count = Count()
        self.violations: list[Violation] = []
        self.drains = PersonsDrains()
        self._left = faults
        self._lock = threading.Lock()
        self._begin = time.monotonic()
        self.nodes_done = threading.Event()
        self.over = threading.Event()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._begin

    def going(self) -> bool:
        """Whether faults still happen on a node."""
        return not self.nodes_done.is_set()

    def watching(self) -> bool:
        return not self.over.is_set()

    def take_fault(self) -> bool:
        """One of the faults that are left. False when there is none."""
        with self._lock:
            if self._left <= 0:
                return False
            self._left -= 1
            if self._left % 50 == 0:
                self.say(
                    f"{self.now_s:7.0f} s  {self._left} faults left, {len(self.violations)} violations"
                )
            return True

    def broken(self, rule: str, what: str) -> None:
        violation = Violation(at_s=self.now_s, rule=rule, what=what)
        self.violations.append(violation)
        self.say(str(violation))

    def nodes(self) -> dict[str, dict[str, Any]] | None:
        """slurmctld's own record of every node, None while it does not answer."""
        done = self.box.run(["timeout", "5", "scontrol", "show", "nodes", "--json"], check=False)
        try:
            rows = json.loads(done.stdout)["nodes"]
            return {row["name"]: row for row in rows if row["state"] and row["reason"] is not None}
        except (ValueError, KeyError, TypeError):
            return None

    def processes(self, node: str) -> list[tuple[int, list[str]]]:
        """Those of a node: pid and argv. None of a node that is powered off."""
        try:
            return self.box.pids(node)
        except SandboxError:
            return []

    def scene(self, node: str) -> str:
        """What runs on a node, and what was logged last about it."""
        return "\n".join(
            (
                *(
                    f"{pid} {kernel_state(pid)} {' '.join(argv)[:160]}"
                    for pid, argv in self.processes(node)
                ),
                self.tail(f"/var/log/slurm/slurmd.{node}.log", "", 20),
                self.tail(f"/var/log/holdfast/agent.{node}.log", "", 20),
                self.tail("/var/log/slurm/slurmctld.log", node, 20),
            )
        )

    def drained_at_once(self, node: str) -> bool:
        """Whether a node's last reason of a person and the agent's own after it came at one moment."""
        log = self.tail("/var/log/slurm/slurmctld.log", f"node {node} reason set to: ", 4)
        found = re.findall(r"^\[(\S+)\] .* reason set to: (\S+)", log, re.MULTILINE)
        times = [datetime.fromisoformat(at) for at, _ in found]
        persons = [at for at, (_, words) in enumerate(found) if not words.startswith("holdfast:")]
        if not persons or persons[-1] + 1 >= len(found):
            return False
        return (times[persons[-1] + 1] - times[persons[-1]]).total_seconds() < AT_ONCE_S

    def tail(self, path: str, word: str, lines: int) -> str:
        """The last lines of a log that contain ``word``."""
        try:
            text = self.box.path(path).read_text(errors="replace")
        except OSError as error:
            return str(error)
        return "\n".join([line for line in text.splitlines() if word in line][-lines:])


class PersonsDrains:
    """The drains that a person made and has not taken back: node -> reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._lock = threading.Lock()
        self._changed_at = float("-inf")
        self.writing = threading.Lock()
        """ReservedBy while a person changes a node, and while slurmctld goes back to older state."""

    def saved(self) -> bool:
        """Whether slurmctld has saved all that people did: it may be killed."""
        return time.monotonic() - self._changed_at > SAVED_S

    def changing(self) -> None:
        """A person is about to change a node."""
        self._changed_at = time.monotonic()

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, node: str) -> bool:
        with self._lock:
            return node in self._reasons

    def made(self, node: str, reason: str) -> None:
        with self._lock:
            self._reasons[node] = reason

    def taken_back(self, node: str) -> None:
        with self._lock:
            self._reasons.pop(node, None)

    def broken_on(self, rows: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
        """What is wrong with each of them in slurmctld's table: the node, and a sentence."""
        with self._lock:
            for node, reason in self._reasons.items():
                row = rows.get(node)
                if row is None:
                    continue
                if "DRAIN" not in row["state"]:
                    yield node, f"{node} is in service, though a person drained it: {reason}"
                elif not str(row["reason"]).startswith(reason):
                    yield node, f"{node}: the reason {reason!r} became {row['reason']!r}"
