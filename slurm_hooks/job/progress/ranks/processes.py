"""The processes of each rank on this node, by the environment that srun and torchrun give them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.job.progress.ranks.threads import thread
from slurm_hooks.job.step import kill_tasks
from slurm_hooks.job.step.kill_tasks import AttemptId, AttemptProcess
from slurm_hooks.node.process import environment

_WRAPPERS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "env", "numactl", "time", "timeout"})
_MAX_PROCESSES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProcess:
    """``by_torchrun``: one that torchrun has started, so that its own processes are no ranks."""

    process: AttemptProcess
    parent: int
    name: str
    rank: int
    by_torchrun: bool
    environ: Mapping[bytes, bytes]

    @property
    def pid(self) -> int:
        return self.process.pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """``main``: the rank's program; ``others``: its further processes, as those that load data."""

    number: int
    main: RankProcess
    others: tuple[RankProcess, ...]


def on_this_node(procfs: Path, attempt: AttemptId, own_step: str) -> list[Rank]:
    """The ranks of the attempt."""
    found: list[RankProcess] = []
    for process in kill_tasks.tasks(procfs, attempt, own_step):
        if len(found) < _MAX_PROCESSES and (read := _read(procfs, process)):
            found.append(read)
    return ranks(found)


def _read(procfs: Path, process: AttemptProcess) -> RankProcess | None:
    folder = procfs / str(process.pid)
    known = thread(folder)
    try:
        raw = environment(folder)
    except OSError:
        return None
    environ = dict(pair.split(b"=", 1) for pair in raw.split(b"\0") if b"=" in pair)
    by_torchrun = b"LOCAL_RANK" in environ and b"RANK" in environ
    rank = environ.get(b"RANK" if by_torchrun else b"SLURM_PROCID", b"")
    if known is None or known.state in "ZX" or not rank.isdigit() or len(rank) > 7:
        return None
    return RankProcess(
        process=process,
        parent=known.parent,
        name=known.name,
        rank=int(rank),
        by_torchrun=by_torchrun,
        environ=environ,
    )


def ranks(processes: Sequence[RankProcess]) -> list[Rank]:
    """Groups the processes by rank. Pure."""
    workers = [process for process in processes if process.by_torchrun]
    groups: dict[int, list[RankProcess]] = defaultdict(list)
    for process in workers or processes:
        groups[process.rank].append(process)
    found = []
    for number, group in sorted(groups.items()):
        main = _main(group)
        others = tuple(process for process in group if process is not main)
        found.append(Rank(number=number, main=main, others=others))
    return found


def _main(group: Sequence[RankProcess]) -> RankProcess:
    """The topmost process that is not a shell around the only other one."""
    pids = {process.pid for process in group}
    main = next((process for process in group if process.parent not in pids), group[0])
    for _ in group:
        children = _children(main, group)
        if main.name not in _WRAPPERS or len(children) != 1:
            break
        main = children[0]
    return main


def _children(parent: RankProcess, group: Iterable[RankProcess]) -> list[RankProcess]:
    return [process for process in group if process.parent == parent.pid]
