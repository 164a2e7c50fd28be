"""Which nodes and ranks a failure points to, by the job's output and by srun's messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from holdfast.slurm.hostlist import expand
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.diagnosis.lines.line import Cause, Diagnosis
from slurm_hooks.job.signatures import Suspect
from slurm_hooks.job.step.run_step import StepEnd
from slurm_hooks.job.step.srun_output import TaskFailure

_NATIVE_CRASH = frozenset({"Segmentation fault", "Bus error", "Illegal instruction"})
"""Crashes that faulty host memory may cause. The second on the same node counts against the node."""
_KILLED = frozenset({"Killed", "Out Of Memory"})
"""As by the kernel, where others use up the node's memory. So does the second of these."""
_MAY_BE_THE_NODE = re.compile(
    r"Read-only file system|\[Errno 30\]|Cannot allocate memory|can't allocate memory|\[Errno 12\]|bad_alloc|"
    r"CUDA driver version is insufficient"
)
"""What a broken node has all its tasks print: a disk that the kernel has remounted, no memory, an old driver."""
_TASKS = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


NO_ADDRESSES: Mapping[str, SlurmName] = MappingProxyType({})


def suspected(
    found: Diagnosis,
    end: StepEnd,
    nodes: Sequence[SlurmName],
    addresses: Mapping[str, SlurmName] = NO_ADDRESSES,
) -> frozenset[SlurmName]:
    """Nodes of the job only: any name can stand in its output. NCCL prints full host names.

    Of a failed transfer both ends, or none: the one that reports it is the victim as often as not.
    """
    hosts = set(found.suspects)
    cause = found.cause
    if cause and cause.signature.suspect is Suspect.BOTH_ENDS:
        peer = cause.peer or ""
        known = addresses.get(peer, peer.partition(".")[0])
        hosts = {*hosts, known} if known in nodes else set()
    hosts |= {task.host for task in end.failures[:1] if task.how in _NATIVE_CRASH}
    hosts |= {host.partition(".")[0] for host in hosts}
    return frozenset(map(SlurmName, hosts)) & frozenset(nodes)


def killed_on(end: StepEnd, nodes: Sequence[SlurmName]) -> frozenset[SlurmName]:
    """The node on which the task that failed first was killed by SIGKILL; else empty."""
    hosts = {SlurmName(task.host) for task in end.failures[:1] if task.how in _KILLED}
    return frozenset(hosts) & frozenset(nodes)


def are_both_ends(cause: Cause | None, suspects: Collection[SlurmName]) -> bool:
    """Whether the suspects are the two ends of one transfer. They may be all nodes of the job."""
    named = cause is not None and cause.signature.suspect is Suspect.BOTH_ENDS
    return named and len(suspects) == 2


def only_failing_node(
    cause: Cause | None, end: StepEnd, nodes: Sequence[SlurmName]
) -> frozenset[SlurmName]:
    """The only node of several on which a file is missing, as after a lost mount; else empty."""
    if cause is None or cause.signature.suspect is not Suspect.ONE_NODE or len(nodes) < 2:
        return frozenset()
    failed = {SlurmName(task.host) for task in _first_alike(end)}
    return frozenset(failed) & frozenset(nodes) if len(failed) == 1 else frozenset()


def is_of_most_ranks(found: Diagnosis, end: StepEnd, tasks: int) -> bool:
    """Whether more than half of the step's ``tasks``, and two at least, ended by themselves with the same
    exit code, and printed the cause as often. A second attempt would tell nothing that they do not: unless all
    are on one node, which alone may be the cause.
    """
    if found.cause is None or end.ended_why:
        return False
    alike = [task for task in _first_alike(end) if not task.ending]
    hosts = {task.host for task in alike}
    on_one = len(hosts) < 2 and not any("[" in host or "," in host for host in hosts)
    if on_one and _MAY_BE_THE_NODE.search(found.cause.line.text):
        return False
    failed = sum(_count(task.tasks) for task in alike)
    lines = 1 + found.others.get(found.cause.signature.code, 0)
    return min(failed, lines) * 2 > max(2, tasks)


def _first_alike(end: StepEnd) -> list[TaskFailure]:
    """The tasks that exited with the code of the first one that failed."""
    code = end.failures[0].code if end.failures else None
    return [task for task in end.failures if task.code == code is not None]


def _count(tasks: str) -> int:
    """How many tasks ``0-3,7`` are."""
    spans = ((int(low), int(high or low)) for low, high in _TASKS.findall(tasks))
    return sum(max(0, high - low) + 1 for low, high in spans)


def failing_host(end: StepEnd) -> SlurmName | None:
    """The node of the task that failed first; None: it is not known."""
    hosts = expand(end.failures[0].host) if end.failures else []
    return SlurmName(hosts[0]) if len(hosts) == 1 else None
