"""A fake Slurm that records who drained a node, when and why, and the agent's step beside it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import cast

from holdfast.errors import Refused, Unavailable
from holdfast.findings import Finding, Verdict
from holdfast.policy.node_inputs import DrainInputs
from holdfast.policy.ownership import PastDrain
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.slurm.reservations import Reservation, SlurmMaintenance
from holdfast.slurm.topology import Group
from holdfast.vocabulary import Action, Mode, NodeState, Severity, SlurmName
from slurm_hooks.agent.drain.messages import StepResult
from slurm_hooks.agent.drain.record import Records
from slurm_hooks.agent.drain.slurm_update import Step
from slurm_hooks.settings.settings import Settings

ME = SlurmName("worker-1")
BOOT, NEXT_BOOT = "aaaaaaaa-1", "bbbbbbbb-2"


@dataclass
class FakeSlurm:
    """slurmctld's node table; every change has a user and a later second."""

    table: dict[str, SlurmNode] = field(default_factory=dict)
    now: datetime = field(
        default_factory=lambda: (datetime.now(timezone.utc) - timedelta(minutes=1)).replace(
            microsecond=0
        )
    )
    writes: list[str] = field(default_factory=list)
    started: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc)
    events: list[PastDrain] | None = None
    """Events of this node in accounting; None: there is no accounting."""
    down: bool = False
    before_drain: list[str] = field(default_factory=list)
    kept: list[Reservation] = field(default_factory=list)
    in_use: int = 0
    rows: int = 0
    """How often one node was read from sinfo, which costs slurmctld little."""
    hidden: bool = False
    leaves: list[Group] = field(default_factory=list)
    """The leaf switches; none: there is no topology."""

    def topology(self) -> list[Group]:
        self._ask()
        if not self.leaves:
            raise Refused(["scontrol"], "No topology information available")
        return self.leaves

    def add(self, *names: str) -> None:
        for name in names:
            states = frozenset({NodeState.IDLE})
            self.table[name] = SlurmNode(
                name=SlurmName(name), states=states, instance_id=f"i-{name}"
            )

    def clock(self) -> datetime:
        self._ask()
        return self.now

    def nodes(self, names: list[SlurmName]) -> list[SlurmNode]:
        self._ask()
        return [self.table[name] for name in names]

    def nodes_fast(self) -> list[SlurmNode]:
        self._ask()
        return [replace(node, instance_id="") for node in self.table.values()]

    def node_state(self, name: SlurmName) -> SlurmNode | None:
        """As sinfo has it; None in no partition."""
        self._ask()
        self.rows += 1
        return None if self.hidden else replace(self.table[name], instance_id="")

    def drain(self, names: list[SlurmName], reason: str, user: str = "root") -> None:
        self._ask()
        for name in self.before_drain:  # other agents, in the same moment
            self._drain(name, "holdfast:XID79: another boot=x", "root")
        self.before_drain = []
        for name in names:
            self._drain(name, reason, user)

    def _drain(self, name: str, reason: str, user: str) -> None:
        self.now += timedelta(seconds=1)
        node = self.table[name]
        states = node.states | {NodeState.DRAIN}
        self.table[name] = replace(
            node, states=states, reason=reason, reason_user=user, reason_at=self.now
        )
        self.writes.append(f"drain {name}")

    def undrain(self, names: list[SlurmName]) -> None:
        self._ask()
        for name in names:
            node = self.table[name]
            self.table[name] = replace(node, states=node.states - {NodeState.DRAIN}, reason="")
            self.writes.append(f"undrain {name}")

    def comment(self, names: list[SlurmName], text: str) -> None:
        self._ask()
        for name in names:
            self.table[name] = replace(self.table[name], comment=text)
            self.writes.append(f"comment {name}")

    def reservations(self, prefix: str) -> list[Reservation]:
        self._ask()
        return [one for one in self.kept if one.name.startswith(prefix)]

    def unreserve(self, name: str) -> bool:
        self._ask()
        if self.in_use:
            self.in_use -= 1
            return False
        self.kept = [one for one in self.kept if one.name != name]
        self.writes.append("unreserve")
        return True

    def node_changes(self) -> NodeChanges:
        self._ask()
        return NodeChanges(self.now, 1, len(self.writes))

    def slurmctld_at(self) -> datetime:
        self._ask()
        return self.started

    def past_drains(self, name: SlurmName, since: datetime) -> list[PastDrain]:
        assert name == ME
        if self.events is None:
            raise Refused(["sacctmgr"], "Slurm accounting storage is disabled")
        return [one for one in self.events if one.end_at is None or one.end_at >= since]

    def restart(self, *, lose: bool) -> None:
        """slurmctld restarts, with its state or with an older one."""
        self.now += timedelta(seconds=5)
        self.started = self.now
        if lose:
            node = self.table[ME]
            self.table[ME] = replace(node, states=node.states - {NodeState.DRAIN}, reason="")

    def cancel_in(self, name: str) -> None:
        self.writes.append("cancel")

    def _ask(self) -> None:
        if self.down:
            raise Unavailable(["scontrol"], "no answer in 1 s")

    @property
    def mine(self) -> SlurmNode:
        return self.table[ME]


@dataclass
class Bench:
    slurm: FakeSlurm
    config: Settings
    path: Path
    boot_id: str = BOOT

    def run(self, case: DrainInputs) -> StepResult:
        drained, problem = self.records.load()
        assert not problem or "Not a directory" in problem
        return self.step().run(case, drained, ended=self.records.load_ended())

    def step(self) -> Step:
        slurm = cast("SlurmMaintenance", self.slurm)
        return Step(slurm, ME, self.boot_id, self.config, self.records)

    @property
    def records(self) -> Records:
        return Records(self.config.cluster.paths)


def fault(
    action: Action = Action.REBOOT, code: str = "XID79", severity: Severity = Severity.FATAL
) -> DrainInputs:
    found = Finding(
        code=code,
        severity=severity,
        subject="GPU-3",
        detail="GPU 3 fell off",
        action=action,
        gpu=3,
        check="gpu_xid",
    )
    return DrainInputs(verdict=Verdict(findings=(found,)), modes={"gpu_xid": Mode.DRAIN})


def clean(passes: int = 2, recovered: bool = True, uuid: str = "GPU-3") -> DrainInputs:
    return DrainInputs(
        modes={"gpu_xid": Mode.DRAIN},
        clean_passes=passes,
        recovered={3: recovered},
        uuids=frozenset({uuid, *(f"GPU-x{n}" for n in range(7))}),
    )
