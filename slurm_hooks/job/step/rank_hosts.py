"""Which node each rank of the job runs on, where the options of sbatch tell it, and how many there are. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_TASKS = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?")
_BLOCK = frozenset({"", "block"})


def rank_hosts(env: Mapping[str, str], nodes: Sequence[str]) -> dict[int, str]:
    """Rank → node for ``--ntasks-per-node`` and Slurm's default distribution.

    Empty with one task per node: torchrun then starts the ranks and chooses their order. sbatch(1):
    SLURM_TASKS_PER_NODE, SLURM_DISTRIBUTION.
    """
    counts = _tasks_per_node(env, nodes)
    distribution = env.get("SLURM_DISTRIBUTION", "").split(":")[0].split(",")[0]
    if not counts or max(counts) < 2 or distribution not in _BLOCK:
        return {}
    hosts = [node for node, count in zip(nodes, counts, strict=True) for _ in range(count)]
    return dict(enumerate(hosts))


def rank_count(env: Mapping[str, str], nodes: Sequence[str], argv: Sequence[str]) -> int:
    """How many ranks the command ``argv`` has: the tasks that srun starts by default, and below torchrun so many
    times as each of these starts processes. 0: not known."""
    return sum(_tasks_per_node(env, nodes)) * _processes_per_task(argv, env)


def _processes_per_task(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """1 without torchrun; 0: torchrun finds out itself (``gpu``, ``auto``), or takes it from a variable."""
    words = [word.rpartition("/")[2] for word in argv]
    if not {"torchrun", "torch.distributed.run"} & set(words):
        return 1
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        name, _, value = word.partition("=")
        if name.replace("_", "-") == "--nproc-per-node":
            found = value or after
            return int(found) if found.isascii() and found.isdigit() and len(found) < 5 else 0
    return 1 if "PET_NPROC_PER_NODE" not in env else 0


def _tasks_per_node(env: Mapping[str, str], nodes: Sequence[str]) -> list[int]:
    """Empty: not known."""
    counts: list[int] = []
    for part in env.get("SLURM_TASKS_PER_NODE", "").split(","):
        found = _TASKS.fullmatch(part.strip())
        if found is None:
            return []
        counts += [int(found[1])] * min(int(found[2] or 1), len(nodes) + 1)
    return counts if len(counts) == len(nodes) else []
