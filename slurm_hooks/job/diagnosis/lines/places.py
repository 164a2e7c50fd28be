"""Which host and rank printed a line, and which host is at the other end of a connection. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_RANK = (
    re.compile(r"\[(?:rank|default)(?P<rank>\d{1,6})\]"),
    re.compile(r"^\s*(?P<rank>\d{1,6}): "),  # srun --label: the task; torchrun has ranks of its own
    re.compile(r"\[?\b[Rr]ank[ :=](?P<rank>\d{1,6})\b"),
    re.compile(r"\[[\d.]+,(?P<rank>\d{1,6})\]<std(?:err|out)>"),  # mpirun --tag-output
)
_NAME = r"[A-Za-z0-9][\w.-]{0,252}"
_HOST = (
    re.compile(rf"\b(?P<host>{_NAME}):\d+:\d+ \[\d+\] "),  # NCCL
    re.compile(rf"\bslurmstepd-(?P<host>{_NAME}): "),
    re.compile(rf"srun: error: (?P<host>{_NAME}): tasks? "),
    re.compile(rf"\*\*\* (?:JOB|STEP) \S+ ON (?P<host>{_NAME}) "),
    re.compile(
        rf"\b\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d:?\d\d|Z)? (?P<host>{_NAME}) (?:kernel|slurmd|systemd)"
    ),
    re.compile(rf"\[\d+\.\d+\] \[(?P<host>{_NAME}):\d+:\d+\] "),  # UCX
    re.compile(rf"^(?:\[[\d.,]+\]<std\w+>:)?\[(?P<host>{_NAME}):\d+(?::\d+)*\] "),  # Open MPI, UCX
    re.compile(r"^\([\w ]{1,60}pid=\d+, ip=(?P<host>[\da-fA-F.:]{3,45})\)"),  # Ray
    re.compile(rf"with PID \d+ on node (?P<host>{_NAME}) exited"),  # mpirun
    re.compile(rf"\bhost *[:=] ?(?P<host>{_NAME})"),
)
_MAPPED = re.compile(
    rf"\b(?P<host>{_NAME}):\d+:\d+ \[\d+\] NCCL INFO "
    r"(?:(?:ncclCommInitRank\S* )?comm \S+ rank (?P<rank>\d{1,6}) n[Rr]anks (?P<count>\d{1,6}) |"
    r"Bootstrap ?: Using (?:\[\d+\])?[\w.-]+:(?P<address>\[?[\da-fA-F.:]+(?:%\w+)?\]?)<\d+>)"
)
_CRASHED = re.compile(
    r"^.{0,80}?(?:exitcode +: -?\d{1,3} +\(pid: |traceback +: Signal \d+ \(\w+\) received by PID )"
    r"(?P<pid>\d{1,9})\b"
)
_PROCESS = re.compile(r"(?:\(pid: |received by PID )(?P<pid>\d{1,9})\b")
_PEER = re.compile(r"^\[?(?P<peer>[\w.:%-]+?)\]?(?:<\d+>)?[,.]?$")
_MAX_KNOWN = 100_000


@dataclass(slots=True)
class Places:
    """``rank_hosts``: rank → host, from the step's start or from what NCCL prints at its own. ``failed_ranks``: of
    torchrun's tables of failures, which have no rank that torchrun has ended."""

    rank_hosts: dict[int, str] = field(default_factory=dict)
    failed_ranks: set[int] = field(default_factory=set)
    _process_hosts: dict[int, str] = field(default_factory=dict)
    _addresses: dict[str, str] = field(default_factory=dict)
    _ranks_of_largest: int = 0

    def note(self, text: str) -> None:
        """Learns from a line of NCCL's start."""
        found = _MAPPED.search(text)
        if found is None or len(self.rank_hosts) + len(self._addresses) > _MAX_KNOWN:
            return
        if found["address"]:
            self._addresses[found["address"].strip("[]")] = found["host"]
        elif int(found["count"]) >= self._ranks_of_largest:
            # A smaller communicator has ranks of its own.
            if int(found["count"]) > self._ranks_of_largest:
                self._ranks_of_largest = int(found["count"])
                self.rank_hosts.clear()
            self.rank_hosts[int(found["rank"])] = found["host"]

    def note_failed(self, rank: int, host: str) -> None:
        """Learns from two lines of torchrun's table of failures."""
        if len(self.failed_ranks) < _MAX_KNOWN:
            self.failed_ranks.add(rank)
            self.rank_hosts.setdefault(rank, host)

    def note_crash(self, text: str, host: str) -> None:
        """Learns from a line of torchrun's table of failures, which is about a process of this host."""
        found = _CRASHED.search(text)
        if found and len(self._process_hosts) < _MAX_KNOWN:
            known = self._process_hosts.setdefault(int(found["pid"]), host)
            if known != host:
                self._process_hosts[int(found["pid"])] = ""  # processes of two hosts have this id

    def host_of_process(self, text: str) -> str | None:
        """The host of the process that a line of torchrun names."""
        found = _PROCESS.search(text) if self._process_hosts else None
        return self._process_hosts.get(int(found["pid"])) or None if found else None

    def host_of(self, name: str) -> str:
        """The host that has this address; the name itself if it is none that NCCL printed."""
        found = _PEER.match(name)
        bare = found["peer"] if found else name
        return self._addresses.get(bare, bare)


def rank_in(text: str) -> int | None:
    """The rank that a line names, usually the one that printed it."""
    found = _first(_RANK, text)
    return int(found["rank"]) if found else None


def host_in(text: str) -> str | None:
    """The host that printed a line, or that it is about."""
    found = _first(_HOST, text)
    return found["host"] if found else None


def ranks_in(text: str) -> tuple[int, ...]:
    """``3, 5-7`` as numbers, at most 1000."""
    ranks: list[int] = []
    for low, high in re.findall(r"(\d{1,6})(?:-(\d{1,6}))?", text):
        ranks += range(int(low), min(int(high or low), int(low) + 1000) + 1)
    return tuple(ranks[:1000])


def hosts_of(ranks: Iterable[int], known: Mapping[int, str]) -> tuple[str, ...]:
    """The hosts of these ranks, each once, in order."""
    return tuple(dict.fromkeys(known[rank] for rank in ranks if rank in known))


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> re.Match[str] | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            return found
    return None
