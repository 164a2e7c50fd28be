"""The values between the agent's loop and the Slurm step that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.findings import Finding, Verdict
from holdfast.policy.flap_damping import Return
from holdfast.policy.node import draining
from holdfast.policy.ownership import DrainRecord, Undrained
from holdfast.policy.return_test import Trial
from holdfast.vocabulary import Mode
from slurm_hooks.agent.drain.record import Drained


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInputs:
    """What speaks for and against the node at one moment.

    ``verdict``       every open finding, and the probes that are silent.
    ``modes``         what each check may do.
    ``clean_passes``  passes in a row in which every probe answered and nothing that drains was
                      open.
    ``recovered``     GPUs that answer and ask for nothing, by index; empty: could not look.
    ``uuids``         of the GPUs that answered in the last pass.
    ``trial``         what came of the active check before the node's return, once it ran.
    ``returns``       of this node to service, by its agent.
    ``may_comment``   the comment was not changed too often lately.
    """

    verdict: Verdict = field(default_factory=Verdict)
    modes: Mapping[str, Mode] = field(default_factory=dict)
    passes: int = 0
    clean_passes: int = 0
    recovered: Mapping[int, bool] = field(default_factory=dict)
    uuids: frozenset[str] = frozenset()
    may_act: bool = True
    trial: Trial | None = None
    returns: tuple[Return, ...] = ()
    may_comment: bool = True

    @property
    def worst(self) -> Finding | None:
        """The finding for which the node should leave service."""
        return draining(self.verdict, self.modes)

    @property
    def audible(self) -> tuple[Finding, ...]:
        """The findings that may be told to Slurm at all."""
        told = (Mode.COMMENT, Mode.DRAIN)
        return tuple(f for f in self.verdict.findings if self.modes.get(f.check) in told)

    @property
    def key(self) -> object:
        """Changes when there is something new to say in Slurm."""
        return frozenset((f.code, f.subject, f.action) for f in self.audible)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmStatus:
    """Where the node stands in Slurm as far as Holdfast is concerned.

    ``action``   drain, comment, observe, none or over-budget: what was decided last.
    ``reason``   the drain reason or comment that goes with it.
    ``drained``  slurmctld confirmed that the node takes no new work, whoever drained it.
    ``why``      the decision's own words.
    ``problem``  why Slurm could not be asked, empty when it could.
    ``made``     the drain that this node's agent has on record; None: it made none that stands.
    ``commented``  words of ours stand in the node's comment, to be taken back once they are over.
    """

    action: str = "none"
    reason: str = ""
    drained: bool = False
    why: str = ""
    problem: str = ""
    made: DrainRecord | None = None
    commented: bool = False

    def failed(self, problem: str) -> SlurmStatus:
        return replace(self, problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change that a step made: ``text`` for the log, ``event`` for the history (names in
    ``holdfast.history.event``; empty: only the log). ``code``, ``subject`` and ``gpu`` are the
    fault's, ``action`` what it asks for.
    """

    text: str
    event: str = ""
    code: str = ""
    subject: str = ""
    gpu: int | None = None
    action: str = ""
    check: str = ""
    verdict: str = ""
    """Of an active check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step found and did; ``did`` holds one deed for each change.

    ``forgiven``: somebody else put a node back into service that we had drained. ``test``: the
    reason of the drain for which an active check is to run now; empty: none. ``undrained``: whether
    that was the drain that was meant is still to be asked. ``unwritten``: why the disk did not take
    what was kept; empty: it has it. ``comments``: how often the comment was changed;
    ``comment_waits``: it was to be changed, and was changed too often lately.
    """

    standing: SlurmStatus
    did: tuple[AuditEntry, ...] = ()
    forgiven: bool = False
    test: str = ""
    drained: Drained | None = None
    undrained: Undrained | None = None
    unwritten: str = ""
    comments: int = 0
    comment_waits: bool = False
