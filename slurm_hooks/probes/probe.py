"""The types of the probe catalogue."""

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
    """The parts of the configuration that probes read."""

    node: NodeConfig
    agent: AgentConfig
    paths: PathsConfig
    slurm: SlurmConfig


Digest = Callable[["Probe", Mapping[str, Answer]], tuple[Any, Blind | None]]
"""Answers by target → (facts, why there are none). Facts ``None`` without a reason: there is
nothing to read on this node.
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
    """The facts of a probe with one target and one item."""
    (answer,) = answers.values()
    if not answer.complete:
        return None, silence(probe.name, answer)
    return (answer.items[0] if answer.items else None), None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One row.

    ``name``      the name that ``Check.probe`` and ``Check.also`` use.
    ``open_``     called in the worker, which also does its imports; returns the function that
                  answers requests.
    ``facts``     the field of NodeFacts for its facts.
    ``every_s``   least time between two reads; 0: every pass.
    ``deadline_s``  time after which the worker is abandoned.
    ``background``  it may take longer than a pass: no pass waits for it, and its answer counts in
                  the pass during which it arrives.
    ``targets``   one worker for each target; none: nothing to read on this node.
    ``request``   (target, whether to release the driver) → the request to the worker.
    ``digest``    answers → facts.
    ``vital``     without its answer the node's verdict is blind.
    ``also_triggers``  the probe that runs at the next pass, due or not, when this one hangs.
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
    also_triggers: str = ""

    @property
    def keep(self) -> bool:
        """Whether the worker stays for the next pass: a fork for every pass costs more than the
        read itself.
        """
        return self.every_s is _at_each_pass


def silence(name: str, answer: Answer, why: str = "") -> Blind:
    """Why a probe has no facts."""
    return Blind(
        probe=name,
        why=why or answer.error,
        hung=answer.hung,
        stuck=answer.stuck and not answer.may_wait_for_cpu,
        evidence=answer.evidence,
    )
