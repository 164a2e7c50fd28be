"""What a probe is: the words that a row of the catalogue is written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.config.schema import PathsConfig, SlurmConfig
from slurm_hooks.facts import Blind
from slurm_hooks.settings.sections import AgentConfig, NodeConfig
from slurm_hooks.worker.child import Serve
from slurm_hooks.worker.worker import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where a probe looks: the parts of the configuration that say so."""

    node: NodeConfig
    agent: AgentConfig
    paths: PathsConfig
    slurm: SlurmConfig


Digest = Callable[["Probe", Mapping[str, Answer]], tuple[Any, Blind | None]]
"""Answers by target → (facts, why there are none). Facts ``None`` without a reason: there was
nothing to look at.
"""


def _once(_sources: Sources) -> tuple[str, ...]:
    return ("",)


def _at_each_pass(_agent: AgentConfig) -> float:
    return 0.0


def _soon(sources: Sources) -> float:
    return sources.agent.probe_deadline_s


def _target(target: str, _release: bool) -> object:
    return target


def sole(probe: Probe, answers: Mapping[str, Answer]) -> tuple[Any, Blind | None]:
    """The facts of a probe that has one target and gives one item."""
    (answer,) = answers.values()
    if not answer.complete:
        return None, silence(probe.name, answer)
    return (answer.items[0] if answer.items else None), None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One row.

    ``name``      what a check's NEEDS says.
    ``open_``     runs in the worker, imports there, and returns what answers requests.
    ``facts``     the field of NodeFacts that its facts go to.
    ``every_s``   least time between two looks; 0: at each pass.
    ``deadline_s``  after this it is abandoned. One that may take longer than a pass is
                  ``background``: no pass waits for it, its answer counts in the one that it finds.
    ``targets``   one worker for each of them; none: nothing to ask on this node.
    ``request``   what a worker is asked: (target, let go of the driver).
    ``digest``    answers → facts.
    ``vital``     its silence makes the node's verdict blind.
    ``stirs``     the probe that is asked at the next pass, due or not, when this one hangs.
    """

    name: str
    open_: Callable[[Sources], Serve]
    facts: str
    every_s: Callable[[AgentConfig], float] = _at_each_pass
    deadline_s: Callable[[Sources], float] = _soon
    targets: Callable[[Sources], tuple[str, ...]] = _once
    request: Callable[[str, bool], object] = _target
    digest: Digest = sole
    background: bool = False
    vital: bool = True
    stirs: str = ""

    @property
    def keep(self) -> bool:
        """Whether the worker stays for the next look: a fork at each pass costs more than the
        look.
        """
        return self.every_s is _at_each_pass


def silence(name: str, answer: Answer, why: str = "") -> Blind:
    """Why a probe has no facts."""
    return Blind(
        probe=name,
        why=why or answer.error,
        hung=answer.hung,
        stuck=answer.stuck,
        evidence=answer.evidence,
    )
