"""A fake node with a true state, a fake slurmctld that records who wrote what, and the agent's real
step.

Nothing here depends on the agent: faults, resets, reboots and replacements are facts of the fake
node, and ``Slurmctld`` raises ``Violation`` at the very write that oversteps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import cast

from holdfast.errors import Refused, Unavailable
from holdfast.findings import Finding, Verdict
from holdfast.history.event import RETURNED
from holdfast.policy.flap_damping import Return, with_return
from holdfast.policy.node_inputs import DrainInputs
from holdfast.policy.ownership import PastDrain, Undrained, overtaken
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.slurm.topology import Group
from holdfast.vocabulary import Action, Mode, NodeState, Severity, SlurmName
from slurm_hooks.agent.drain import return_test, situation, slurm_update
from slurm_hooks.agent.drain.messages import StepResult
from slurm_hooks.agent.drain.record import Drained, Records
from slurm_hooks.agent.drain.slurm_update import Step
from slurm_hooks.settings.sections import AgentConfig, BudgetConfig, NodeConfig
from slurm_hooks.settings.settings import Settings

ME = SlurmName("worker-1")
OTHERS = tuple(SlurmName(f"worker-{n}") for n in (0, 2, 3))
AGENT, HUMAN, SLURM = "agent", "human", "slurm"
START = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
RECHECK_PASSES, WAIT_S, MAX_OUT = 2, 30.0, 2
WINDOW_S, MAX_RETURNS = 1800.0, 3
CONFIG = Settings(
    path=Path("/nowhere/holdfast.yaml"),
    node=NodeConfig(budget=BudgetConfig(max_nodes=MAX_OUT, max_share=0)),
    agent=AgentConfig(
        recheck_passes=RECHECK_PASSES,
        wait_s=WAIT_S,
        return_window_s=WINDOW_S,
        max_returns=MAX_RETURNS,
    ),
)
ALL_OTHER_GPUS = frozenset(f"GPU-x{n}" for n in range(7))


class Violation(AssertionError):
    """The agent did something forbidden."""


class Killed(BaseException):
    """The agent's process was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A true fault. ``asks``: the driver itself reports that the GPU requires a recovery action."""

    code: str
    severity: Severity
    action: Action
    check: str = "gpu_xid"
    gpu: int | None = 3
    asks: bool = True
    drains: bool = True


FAULTS = (
    Fault(code="XID79", severity=Severity.FATAL, action=Action.REBOOT),
    Fault(code="XID48", severity=Severity.FATAL, action=Action.RESET_GPU),
    Fault(code="ROW_REMAP_FAILED", severity=Severity.FATAL, action=Action.REPLACE, asks=False),
    Fault(code="XID54", severity=Severity.FATAL, action=Action.CONTACT_SUPPORT, asks=False),
    Fault(code="MOUNT_HUNG", severity=Severity.FATAL, action=Action.WAIT, check="mounts", gpu=None, asks=False),
    Fault(code="XID31", severity=Severity.INFO, action=Action.NONE, asks=False, drains=False),
)  # fmt: skip
CHECKS = ("gpu_xid", "mounts")
_RANK = {action: rank for rank, action in enumerate(Action)}


@dataclass
class Slurmctld:
    """The node table. Reasons have a user and whole seconds; ``owner`` is who really drained the
    node."""

    now: datetime = START
    table: dict[SlurmName, SlurmNode] = field(default_factory=dict)
    owner: dict[SlurmName, str | None] = field(default_factory=dict)
    commented_by_human: bool = False
    fails: int | None = None
    """The number of the call from now that gets no answer; ``took``: whether it took effect anyway.
    """
    took: bool = False
    dies: bool = False
    on_drain: Callable[[str], None] = lambda _reason: None
    on_undrain: Callable[[], None] = lambda: None
    events: list[PastDrain] = field(default_factory=list)
    """Of this agent's node, as accounting has them."""
    accounting: bool = True
    """Whether slurmdbd answers. slurmctld keeps the events for it."""
    changes: int = 0
    """Requests to change a node, from anybody."""
    started: datetime = START - timedelta(days=1)

    def __post_init__(self) -> None:
        for name in (ME, *OTHERS):
            self.table[name] = SlurmNode(
                name=name, states=frozenset({NodeState.IDLE}), instance_id=f"i-{name}"
            )
            self.owner[name] = None

    @property
    def mine(self) -> SlurmNode:
        return self.table[ME]

    # calls of the agent's adapter

    def nodes(self, names: Sequence[SlurmName]) -> list[SlurmNode]:
        self._call(lambda: None)
        if unknown := set(names) - set(self.table):
            raise Refused(["scontrol"], f"Slurm knows no node {min(unknown)}")
        return [self.table[name] for name in names]

    def nodes_fast(self) -> list[SlurmNode]:
        return self._call(lambda: None) or [
            replace(node, instance_id="") for node in self.table.values()
        ]

    def drain(self, names: Sequence[SlurmName], reason: str, user: str = "root") -> None:
        assert list(names) == [ME]

        def write() -> None:
            self.on_drain(reason)
            self.set_drain(ME, reason, user, AGENT)

        self._call(write)

    def undrain(self, names: Sequence[SlurmName]) -> None:
        assert list(names) == [ME]

        def write() -> None:
            self.on_undrain()
            self.clear_drain(ME)

        self._call(write)

    def node_changes(self) -> NodeChanges:
        self._call(lambda: None)
        return NodeChanges(self.now.replace(microsecond=0), 1, self.changes)

    def topology(self) -> list[Group]:
        raise Refused(["scontrol"], "No topology information available")

    def slurmctld_at(self) -> datetime:
        self._call(lambda: None)
        return self.started

    def past_drains(self, name: SlurmName, since: datetime) -> list[PastDrain]:
        assert name == ME
        self._call(lambda: None)
        if not self.accounting:
            raise Refused(["sacctmgr"], "Slurm accounting storage is disabled")
        return [
            replace(
                one, replaced=any(o.start_at == one.end_at for o in self.events if o is not one)
            )
            for one in self.events
            if one.end_at is None or one.end_at >= since
        ]

    def restart(self) -> None:
        self.now += timedelta(seconds=2)
        self.started = self.now.replace(microsecond=0)
        self.now += timedelta(seconds=2)

    def comment(self, names: Sequence[SlurmName], text: str) -> None:
        assert list(names) == [ME]

        def write() -> None:
            if self.commented_by_human and self.mine.comment:
                raise Violation(f"a person's comment was overwritten by {text!r}")
            self.table[ME] = replace(self.mine, comment=text)

        self._call(write)

    def reservations(self, prefix: str) -> list[object]:
        """None: no active check runs here (agent.return_test is off)."""
        assert prefix
        return list(self._call(lambda: None))

    def _call(self, effect: Callable[[], None]) -> list[SlurmNode]:
        """An empty list after the effect; or no answer, or a kill of the agent, before or after it."""
        if self.fails is None or self.fails > 0:
            self.fails = None if self.fails is None else self.fails - 1
            effect()
            return []
        if self.dies:
            self.fails = None
        if self.took:
            effect()
        raise Killed if self.dies else Unavailable(["scontrol"], "no answer in 1 s")

    # changes by anyone

    def set_drain(self, name: SlurmName, reason: str, user: str, owner: str) -> None:
        self.now += timedelta(seconds=1)
        self.changes += 1
        node = self.table[name]
        self.table[name] = replace(
            node,
            states=node.states | {NodeState.DRAIN},
            reason=reason,
            reason_user=user,
            reason_at=self.now.replace(microsecond=0),
        )
        self.owner[name] = owner
        if name == ME:
            self._event_ends()
            at = self.now.replace(microsecond=0)
            self.events.append(PastDrain(start_at=at, end_at=None, user=user, reason=reason))

    def _event_ends(self) -> None:
        if self.events and self.events[-1].end_at is None:
            self.events[-1] = replace(self.events[-1], end_at=self.now.replace(microsecond=0))

    def clear_drain(self, name: SlurmName) -> None:
        self.changes += 1
        if name == ME:
            self._event_ends()
        node = self.table[name]
        self.table[name] = replace(
            node, states=node.states - {NodeState.DRAIN}, reason="", reason_user="", reason_at=None
        )
        self.owner[name] = None

    def out_by_us(self) -> int:
        return sum(
            node.drained_flag and Reason.parse(node.reason) is not None
            for node in self.table.values()
        )


class Kept(Records):
    """Records that a kill of the agent does not change, in place of a disk."""

    def __init__(self) -> None:
        self.problem = ""
        self.drained: Drained | None = None
        self.undrained: Undrained | None = None
        self.ended: tuple[Drained, ...] = ()

    def save(self, drained: Drained | None) -> None:
        self.drained = drained

    def save_return(self, undrained: Undrained | None) -> None:
        self.undrained = undrained

    def settle(self) -> None:
        pass

    def save_ended(self, drains: Sequence[Drained]) -> None:
        self.ended = tuple(drains)


@dataclass
class Since:
    """What really happened since the agent's drain, and what that drain is for."""

    at: datetime
    demand: Action
    returns: int = 0
    """How often the node had returned for this code within the window."""
    reset: bool = False
    rebooted: bool = False
    replaced: bool = False


class FakeNode:
    """The node, its faults, and an agent that makes a pass or a step on request."""

    def __init__(self) -> None:
        self.slurm = Slurmctld(on_drain=self._drains, on_undrain=self._undrains)
        self.faults: list[Fault] = []
        self.boot, self.gpu, self.instance = 0, 0, 0
        self.modes = dict.fromkeys(CHECKS, Mode.DRAIN)
        self.blind: tuple[str, ...] = ()
        self.switched_off = False
        self.kept = Kept()
        self.since: Since | None = None
        self.since_before: Since | None = None
        """Of the drain that a person ended."""
        self.returned: list[tuple[str, datetime]] = []
        self.resumed = False
        """A person, or the agent itself, has ended the agent's drain."""
        self.lost = ""
        """The reason of the agent's drain that a restarted slurmctld lost."""
        self.is_known = False
        """A person ended that drain before, and accounting knows it."""
        self.clean_in_truth = 0
        # the agent's knowledge
        self.known: list[Fault] = []
        self.passes = self.clean_passes = 0
        self.returns: tuple[Return, ...] = ()
        self.restore = ""
        """The reason of a person's drain that an undrain ended, until it is set again."""
        self.ambush = False
        """A person drains the node between the agent's next check and its undrain."""

    # --- the agent

    @property
    def record(self) -> Drained | None:
        return self.kept.drained

    def look(self) -> None:
        """One pass: all faults are found, unless the probes do not answer."""
        self.passes += 1
        if not self.blind:
            self.known = list(self.faults)
        clean = self._inputs().worst is None and not self.blind
        self.clean_passes = self.clean_passes + 1 if clean else 0
        truly = not any(self._counts(fault) for fault in self.faults) and not self.blind
        self.clean_in_truth = self.clean_in_truth + 1 if truly else 0

    def step(self) -> None:
        """The agent's step after a pass or an Xid. A kill does not change the record."""
        if self.switched_off:
            return
        step = Step(
            cast("SlurmMaintenance", self.slurm), ME, f"{self.boot:08d}-boot", CONFIG, self.kept
        )
        modules = [vars(module) for module in (return_test, situation, slurm_update)]
        for module in modules:
            module["datetime"] = _Clock(self.slurm)
        try:
            self._take(self._run(step))
            self.audit()
            if self.restore:
                self._run(step)
        except Unavailable:
            pass
        except Killed:
            self.restart()
        finally:
            for module in modules:
                module["datetime"] = datetime

    def _run(self, step: Step) -> StepResult:
        kept = self.kept
        outcome = step.run(self._inputs(), self.record, self.restore, kept.ended, kept.undrained)
        if self.restore and self.slurm.mine.reason == self.restore:
            self.slurm.owner[ME] = HUMAN  # the drain that was set again is the person's
        self.restore = ""
        if self.record is None:
            self.lost = ""  # nothing is on record that could be set again
        return outcome

    def audit(self) -> None:
        """The query of ``undrain_audit``, until accounting answers."""
        undrained = self.kept.undrained
        if undrained is None or self.restore or not self.slurm.accounting:
            return
        try:
            ended = overtaken(self.slurm.events, undrained)
        except LookupError:
            return
        if ended is None:
            self.kept.undrained = None
        else:
            self.restore = ended.reason

    def _take(self, outcome: StepResult) -> None:
        for entry in outcome.entries:
            if entry.event == RETURNED:
                one = Return(code=entry.code, at=self.slurm.now.timestamp())
                self.returns = with_return(self.returns, one)
        if outcome.acknowledged:
            if not self.resumed:
                raise Violation("acknowledged, but no person had resumed the node")
            self.returns, self.returned, self.lost = (), [], ""
            self.known = [fault for fault in self.known if fault.check != "gpu_xid"]

    def restart(self) -> None:
        """The agent restarts: its counts of passes are lost; its records and tracked state are not."""
        self.restore = ""
        self.clean_passes = self.clean_in_truth = 0

    def _inputs(self) -> DrainInputs:
        # Ordered as by the agent: the most severe finding with the strongest action first.
        order = sorted(self.known, key=lambda f: (-f.severity, -_RANK[f.action], f.code))
        found = tuple(self._finding(fault) for fault in order)
        asks = any(fault.asks and fault.gpu is not None for fault in self.faults)
        uuids = {f"GPU-3-{self.gpu}", *ALL_OTHER_GPUS}
        return DrainInputs(
            verdict=Verdict(findings=found, blind=self.blind),
            modes=self.modes,
            passes=self.passes,
            clean_passes=self.clean_passes,
            recovered={} if self.blind else {3: not asks},
            uuids=frozenset() if self.blind else frozenset(uuids),
            returns=self.returns,
        )

    def _finding(self, fault: Fault) -> Finding:
        return Finding(
            code=fault.code,
            severity=fault.severity,
            subject="/mnt/training" if fault.gpu is None else f"GPU-3-{self.gpu}",
            detail=f"{fault.code} is there",
            action=fault.action,
            gpu=fault.gpu,
            check=fault.check,
        )

    def _counts(self, fault: Fault) -> bool:
        return fault.drains and self.modes[fault.check] is Mode.DRAIN

    # --- rules for the agent's writes

    def _drains(self, reason: str) -> None:
        node, owner = self.slurm.mine, self.slurm.owner[ME]
        if reason == self.restore and owner != HUMAN:
            return  # also over a drain that the agent has set meanwhile for a new fault
        if self.switched_off:
            raise Violation("drained although switched off")
        if owner == HUMAN:
            raise Violation(f"drained over a person's drain ({node.reason!r})")
        before = self.since or self.since_before
        if reason == self.lost and before is not None and self.slurm.out_by_us() < MAX_OUT:
            if self.is_known and self.slurm.accounting:
                raise Violation("a person's resume, known to accounting, was reverted")
            self.since, self.lost, self.resumed = replace(before, at=self.slurm.now), "", False
            return
        guilty = [fault for fault in self.known if self._counts(fault)]
        parsed = Reason.parse(reason)
        if parsed is None or parsed.code not in {fault.code for fault in guilty}:
            raise Violation(f"drained for {reason!r}, which no fault justifies")
        if owner != AGENT and self.slurm.out_by_us() >= MAX_OUT:
            raise Violation("drained over the budget")
        worst = max(guilty, key=lambda fault: list(Action).index(fault.action)).action
        demand = next(fault.action for fault in guilty if fault.code == parsed.code)
        if self.since is None or owner != AGENT:
            # A GPU that was reset since the agent's last pass needs no further reset.
            over = not any(fault in self.faults for fault in guilty)
            self.since = Since(at=self.slurm.now, demand=demand, reset=over)
        else:
            known = self.since.returns
            demand = max(demand, worst, key=list(Action).index)
            self.since = Since(at=self.slurm.now, demand=demand, returns=known)
        lately = [
            code
            for code, at in self.returned
            if code == parsed.code and (self.slurm.now - at).total_seconds() < WINDOW_S - 1
        ]
        self.since.returns = max(self.since.returns, len(lately))
        self.lost, self.resumed = "", False

    def _undrains(self) -> None:
        owner, since = self.slurm.owner[ME], self.since
        if owner != AGENT or since is None:
            raise Violation(f"undrained what {owner or 'nobody'} drained")
        if self.switched_off:
            raise Violation("undrained although switched off")
        if self.slurm.out_by_us() > MAX_OUT:
            return  # a withdrawal: the fault stays, and the comment reports it
        if self.blind:
            raise Violation("undrained while blind")
        if any(self._counts(fault) for fault in self.known):
            raise Violation("undrained with a known fault")
        if min(self.clean_passes, self.clean_in_truth) < RECHECK_PASSES:
            raise Violation(f"undrained after {self.clean_in_truth} clean passes")
        waited = self.slurm.now - since.at >= timedelta(seconds=WAIT_S - 1)
        done = {
            Action.WAIT: waited,
            Action.RESET_GPU: since.reset or since.rebooted or since.replaced,
            Action.REBOOT: since.rebooted or since.replaced,
            Action.REPLACE: since.replaced,
            Action.CONTACT_SUPPORT: False,
        }
        if not done[since.demand]:
            raise Violation(f"undrained without the {since.demand.value} that was required")
        if since.returns >= MAX_RETURNS:
            raise Violation(f"undrained after {since.returns} returns, which requires a person")
        grown = timedelta(seconds=WAIT_S * 2**since.returns - 1) if since.returns else timedelta(0)
        if self.slurm.now - since.at < grown:
            raise Violation(f"undrained too soon after {since.returns} returns")
        reason = Reason.parse(self.slurm.mine.reason)
        assert reason is not None
        self.returned.append((reason.code, self.slurm.now))
        self.resumed = True


@dataclass
class _Clock:
    """Replaces ``datetime`` in the step: the fake node's time."""

    slurm: Slurmctld

    def now(self, _zone: timezone) -> datetime:
        return self.slurm.now
