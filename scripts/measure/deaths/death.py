"""One way for a job to die, and what must follow: values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from measure.deaths.job import RunningJob


class Where(Enum):
    """What else may run meanwhile."""

    SHARED = "shared"
    """It affects its own job only."""
    NODE = "node"
    """It affects one node, which its job has for itself."""
    ALONE = "alone"
    """It affects the controller, or the jobs of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What must follow.

    ``ends``      how each attempt ends, in order: ``restart``, ``requeue``, ``hold`` and ``fail`` are
                  decisions; ``done``: it succeeded; ``others``: a person or Slurm ended it; ``lost``: its
                  launcher was killed.
    ``or_ends``   or so, where it depends on the moment.
    ``or_slurm``  Slurm may have ended the first attempt before its launcher could: ``others`` instead, without
                  a reason.
    ``state``     the job's last state; ``HELD``: it waits for a person.
    ``charged``   attempts that count against the job.
    ``avoids``    the last run avoids the node that died, or that the output names.
    ``avoids_all`` it avoids all nodes of the first run.
    ``keeps``     the job's list of excluded nodes has what its owner asked for, and the node that died.
    ``because``   what the last decision's reason contains.
    ``tests``     the job's nodes were tested in pairs, once.
    ``resumes``   the step of the checkpoint from which the last attempt starts.
    """

    ends: tuple[str, ...]
    or_ends: tuple[str, ...] = ()
    or_slurm: bool = False
    state: str = "COMPLETED"
    charged: int = 0
    avoids: bool = False
    avoids_all: bool = False
    keeps: bool = False
    because: str = ""
    tests: bool = False
    resumes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """``name``     of one word or more, with hyphens.
    ``how``      what happens, for people.
    ``then``     what must follow, for people.
    ``rank``     sh code that each task runs in its first attempt, or with ``every`` in all of them.
    ``act``      what is done to the job from outside, once its tasks run.
    ``nodes``    of the job, with two tasks on each.
    ``options``  of sbatch, where OTHER is a node that the job does not need; ``run``: of ``holdfast run``.
    ``before``   lines of the script before ``holdfast run``.
    ``on_first`` the node that the death affects is that of the launcher.
    """

    name: str
    how: str
    then: str
    expect: Expect
    rank: str = ""
    every: bool = False
    act: Callable[[RunningJob], None] | None = None
    where: Where = Where.SHARED
    nodes: int = 1
    options: tuple[str, ...] = ("--requeue",)
    run: str = ""
    before: str = ""
    on_first: bool = False
    within_s: float = 90.0
