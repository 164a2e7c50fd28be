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


def task_count(env: Mapping[str, str], nodes: Sequence[str]) -> int:
    """How many tasks srun starts by default; 0: not known."""
    return sum(_tasks_per_node(env, nodes))


def _tasks_per_node(env: Mapping[str, str], nodes: Sequence[str]) -> list[int]:
    """Empty: not known."""
    counts: list[int] = []
    for part in env.get("SLURM_TASKS_PER_NODE", "").split(","):
        found = _TASKS.fullmatch(part.strip())
        if found is None:
            return []
        counts += [int(found[1])] * min(int(found[2] or 1), len(nodes) + 1)
    return counts if len(counts) == len(nodes) else []
