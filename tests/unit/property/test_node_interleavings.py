"""Any order of faults, people, reboots, lost contact and killed agents: no wrong drain, no undrain
without evidence. ``scripts/bench interleavings`` runs 100,000 of these scenarios.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.policy.ownership import same_slurmctld
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action, Mode, NodeState, SlurmName
from tests.unit.property.fake_node import (
    AGENT,
    CHECKS,
    FAULTS,
    HUMAN,
    MAX_RETURNS,
    ME,
    OTHERS,
    SLURM,
    WAIT_S,
    FakeNode,
    Kept,
    Since,
    Violation,
)


@dataclass(frozen=True, kw_only=True)
class Saved:
    """This node in a backup of slurmctld's state, and its true state at that time."""

    node: SlurmNode
    owner: str | None
    words: str | None
    commented: bool
    since: Since | None


class Scenario(FakeNode):
    """The events that may happen; each is one step of a scenario."""

    def __init__(self) -> None:
        super().__init__()
        self.words: str | None = None
        self.saved = self._state()
        self.turn = 0

    # --- faults and repairs

    def _breaks(self, code: str) -> None:
        fault = next(fault for fault in FAULTS if fault.code == code)
        if fault not in self.faults:
            self.faults.append(fault)
            if fault.check == "gpu_xid":  # an event between two passes cannot be noticed
                self.clean_in_truth = 0
        if fault.check == "gpu_xid" and not self.blind:
            # The kernel log wakes the agent: the fault is known at once, and the re-check starts again.
            self.known = [*(one for one in self.known if one != fault), fault]
            self.clean_passes = 0
            self.step()

    def fault_falls_off_the_bus(self) -> None:
        self._breaks("XID79")

    def fault_double_bit(self) -> None:
        self._breaks("XID48")

    def fault_worn_out(self) -> None:
        self._breaks("ROW_REMAP_FAILED")

    def fault_for_support(self) -> None:
        self._breaks("XID54")

    def fault_mount_hangs(self) -> None:
        self._breaks("MOUNT_HUNG")

    def fault_mount_flaps(self) -> None:
        """For a minute or two at a time."""
        for _ in range(self.turn % 3 + 1):
            self.fault_mount_hangs()
            self.pass_()
            self.mend_mount()
            self.time_a_minute()
            for _ in range(3):
                self.pass_()
        self.turn += 1

    def fault_harmless(self) -> None:
        self._breaks("XID31")

    def mend_mount(self) -> None:
        self.faults = [fault for fault in self.faults if fault.action is not Action.WAIT]

    def mend_gpu_reset(self) -> None:
        cured = (Action.RESET_GPU, Action.NONE)
        self.faults = [fault for fault in self.faults if fault.action not in cured]
        for since in self._drains_since():
            since.reset = True

    def mend_reboot(self) -> None:
        cured = (Action.RESET_GPU, Action.NONE, Action.REBOOT, Action.WAIT)
        self.faults = [fault for fault in self.faults if fault.action not in cured]
        self.known = [fault for fault in self.known if fault.action not in cured]
        self.boot += 1
        self.blind = ()
        self.restart()
        for since in self._drains_since():
            since.reset = since.rebooted = True

    def _drains_since(self) -> list[Since]:
        """The agent's drain, the one before a person's resume, and the one in slurmctld's saved
        state."""
        known = (self.since, self.since_before, self.saved.since)
        return [since for since in known if since is not None]

    def mend_new_gpu(self) -> None:
        """A GPU is only replaced while the machine is off."""
        self.mend_reboot()
        self.gpu += 1
        cured = Action.REPLACE
        self.faults = [fault for fault in self.faults if fault.action is not cured]
        self.known = [fault for fault in self.known if fault.action is not cured]
        for since in self._drains_since():
            since.replaced = True

    def mend_new_machine(self) -> None:
        """Another instance with the same name: a new disk, and a new agent without tracked state. A question
        to accounting is lost with the disk; so is the machine that the person drained."""
        if self._asks():
            self.words = None
        self.mend_new_gpu()
        self.faults, self.known, self.kept = [], [], Kept()
        self.returns, self.returned = (), []
        self.instance += 1
        node = replace(self.slurm.mine, instance_id=f"i-{ME}-{self.instance}")
        self.slurm.table[ME] = node

    # --- what the agent cannot read

    def blind_begins(self) -> None:
        self.blind = ("nvml",)

    def blind_ends(self) -> None:
        self.blind = ()

    def agent_restarts(self) -> None:
        self.restart()

    def slurm_is_away(self) -> None:
        self.slurm.fails, self.slurm.dies = 0, False

    def slurm_is_back(self) -> None:
        self.slurm.fails = None

    def slurm_goes_away_soon(self) -> None:
        """Before or after a call took effect, in the middle of a step."""
        self.turn += 1
        self.slurm.fails, self.slurm.dies = self.turn % 5, False
        self.slurm.took = self.turn % 2 == 0

    def slurm_accounting_is_away(self) -> None:
        self.slurm.accounting = False

    def slurm_accounting_is_back(self) -> None:
        self.slurm.accounting = True

    def agent_is_killed_soon(self) -> None:
        self.turn += 1
        self.slurm.fails, self.slurm.dies = self.turn % 5, True
        self.slurm.took = self.turn % 2 == 0

    def _state(self) -> Saved:
        return Saved(
            node=self.slurm.mine,
            owner=self.slurm.owner[ME],
            words=self.words,
            commented=self.slurm.commented_by_human,
            since=self.since,
        )

    def slurm_is_backed_up(self) -> None:
        self.saved = self._state()

    def slurm_restarts(self) -> None:
        self.slurm.restart()
        if not self.slurm.mine.drained_flag:
            self._loses_drain()

    def _loses_drain(self) -> None:
        """slurmctld may have lost the recorded drain. One that was never confirmed may never have been set."""
        if self.record is not None and self.record.record.at is not None and not self.lost:
            self.lost, self.is_known = self.record.record.reason, self.resumed

    def slurm_is_restored(self) -> None:
        """slurmctld restarts with the state that was backed up last."""
        self.slurm_restarts()
        self._loses_drain()
        saved = self.saved
        self.slurm.table[ME] = replace(saved.node, instance_id=self.slurm.mine.instance_id)
        self.slurm.owner[ME], self.words = saved.owner, saved.words
        self.slurm.commented_by_human = saved.commented
        if saved.owner == AGENT:
            self.since, self.lost = saved.since, ""

    def slurm_loses_contact(self) -> None:
        """Slurm appends its own words with its own user, so the user of the earlier reason is
        unknown."""
        node = self.slurm.mine
        if self.words is not None and Reason.parse(self.words):
            return
        if node.drained_flag and not node.reason.endswith("Not responding"):
            text = f"{node.reason} : Not responding"
            self.slurm.set_drain(ME, text, SLURM, self.slurm.owner[ME] or SLURM)
            if self.words is not None:
                self.words = text

    def slurm_marks_down(self) -> None:
        node = self.slurm.mine
        states = (node.states - {NodeState.IDLE}) | {NodeState.DOWN}
        self.slurm.table[ME] = replace(node, states=states)

    def slurm_marks_idle(self) -> None:
        node = self.slurm.mine
        states = (node.states - {NodeState.DOWN}) | {NodeState.IDLE}
        self.slurm.table[ME] = replace(node, states=states)

    def slurm_drains_for_our_prolog(self) -> None:
        """The verdict is bad, and a prolog refuses the node before the agent has drained it."""
        if self._inputs().worst is not None and not self.slurm.mine.drained_flag:
            self.slurm.set_drain(ME, "Prolog error", SLURM, SLURM)

    # --- what people and other agents do

    def _human(self, text: str, user: str) -> None:
        self.slurm.set_drain(ME, text, user, HUMAN)
        self.words = text

    def human_drains(self) -> None:
        self._human("swapping DIMM", "alice")

    def human_drains_as_root(self) -> None:
        self._human("swapping DIMM", "root")

    def human_drains_with_our_words(self) -> None:
        """Not while the result of an agent's write is unknown: the two could not be distinguished."""
        record = self.record.record if self.record else None
        if record is not None and record.at is None:
            return
        text = record.reason if record else "holdfast:XID79: gpu 3 boot=0"
        self.resumed = False  # accounting cannot tell such a drain from the agent's
        self.slurm.now += timedelta(seconds=1)
        self._human(text, "root")

    def human_drains_in_the_moment_of_the_return(self) -> None:
        """Between the last check and the next undrain."""
        self.ambush = True

    def _undrains(self) -> None:
        super()._undrains()
        if self.ambush:
            self.ambush = False
            self._human("swapping DIMM", "alice")

    def human_undrains(self) -> None:
        record = self.record.record if self.record else None
        if record and record.at and not self.lost:
            # Unknown if the agent never saw its drain under this slurmctld.
            unseen = not same_slurmctld(record, self.slurm.started)
            self.lost, self.is_known = record.reason if unseen else "", False
        self.slurm.clear_drain(ME)
        self.resumed = self.resumed or self.slurm.owner[ME] is None
        self.since_before = self.since or self.since_before
        self.words, self.since = None, None

    def human_comments(self) -> None:
        self.slurm.table[ME] = replace(self.slurm.mine, comment="ask Anna first")
        self.slurm.commented_by_human = True

    def human_clears_the_comment(self) -> None:
        self.slurm.table[ME] = replace(self.slurm.mine, comment="")
        self.slurm.commented_by_human = False

    def other_drains(self) -> None:
        for name in OTHERS:
            if not self.slurm.table[name].drained_flag:
                self.slurm.set_drain(name, "holdfast:XID79: theirs boot=1", "root", AGENT)
                return

    def other_returns(self) -> None:
        for name in OTHERS:
            if self.slurm.table[name].drained_flag:
                self.slurm.clear_drain(name)
                return

    def mode_changes(self) -> None:
        check = CHECKS[self.turn % 2]
        self.turn += 1
        was = self.modes[check]
        self.modes = {**self.modes, check: Mode.OBSERVE if was is Mode.DRAIN else Mode.DRAIN}
        self.restart()  # a new configuration restarts the agent

    def switch_flips(self) -> None:
        self.switched_off = not self.switched_off

    # --- time

    def pass_(self) -> None:
        self.slurm.now += timedelta(seconds=10)
        self.look()
        self.step()

    pass_again = pass_more = pass_

    def time_a_minute(self) -> None:
        self.slurm.now += timedelta(seconds=60)

    # --- what must hold after each step

    def check(self) -> None:
        node = self.slurm.mine
        if self.words is not None and not self._asks():
            if not node.drained_flag:
                raise Violation("a person's drain was undone")
            if node.reason != self.words:
                raise Violation(f"a person's reason became {node.reason!r}")
        if self.slurm.commented_by_human and node.comment != "ask Anna first":
            raise Violation("a person's comment was taken away")

    def _asks(self) -> bool:
        """Accounting has not reported yet which drain the undrain ended. Until then the node is in service,
        or the agent has drained it again for a fault."""
        own = not self.slurm.mine.drained_flag or self.slurm.owner[ME] == AGENT
        return self.kept.undrained is not None and own

    def settle(self) -> None:
        """Everything is repaired and no person interferes: a node drained by Holdfast returns to
        service."""
        self.slurm.fails, self.blind, self.switched_off = None, (), False
        self.slurm.accounting = True
        self.modes = dict.fromkeys(CHECKS, Mode.DRAIN)
        self.slurm_marks_idle()
        for name in OTHERS:
            self.slurm.clear_drain(name)
        support = self.since is not None and self.since.demand is Action.CONTACT_SUPPORT
        self.mend_new_gpu()
        self.faults, self.known = [], []
        confirmed = self.record is not None and self.record.record.at is not None
        damped = self.record is not None and self.record.record.returns
        for _ in range(8 + (int(WAIT_S * 2**MAX_RETURNS / 10) if damped else 0)):
            self.pass_()
            self.check()
        if self._asks():
            raise Violation("a return was never confirmed")
        node, owner = self.slurm.mine, self.slurm.owner[ME]
        if owner == AGENT and confirmed and not support and node.drained_flag:
            asked = self.since.demand if self.since else None
            by_hand = self.record is not None and self.record.record.by_hand
            if by_hand and self.since is not None and self.since.returns < MAX_RETURNS:
                raise Violation(f"a person is required after {self.since.returns} returns")
            if asked is not Action.CONTACT_SUPPORT and self.record is not None and not by_hand:
                raise Violation(f"never returned to service: {node.reason!r}")


STEPS: dict[str, Callable[[Scenario], None]] = {
    name: step
    for name, step in vars(Scenario).items()
    if name.startswith(
        ("fault_", "mend_", "blind_", "agent_", "slurm_", "human_", "other_", "mode_", "switch_", "pass_", "time_")
    )
}  # fmt: skip
NAMES = sorted(STEPS)
_OFTEN = {"pass_": 10.0, "fault_": 2.0, "mend_": 3.0}
WEIGHTS = [
    next((weight for prefix, weight in _OFTEN.items() if name.startswith(prefix)), 0.7)
    for name in NAMES
]
UNIT_SCENARIOS = 800


def run_scenario(names: Sequence[str]) -> None:
    """Run the steps in order. Raises Violation with the steps so far."""
    scenario = Scenario()
    for at, name in enumerate(names):
        try:
            STEPS[name](scenario)
            scenario.check()
        except Violation as error:
            raise Violation(f"{error}: {' → '.join(names[: at + 1])}") from error
    try:
        scenario.settle()
    except Violation as error:
        raise Violation(f"{error}: {' → '.join(names)} → settled") from error


def run_scenarios(seed: int, count: int) -> int:
    """Run ``count`` random scenarios; returns the number of steps. Raises Violation."""
    chance, steps = random.Random(seed), 0
    for _ in range(count):
        names = chance.choices(NAMES, weights=WEIGHTS, k=chance.randint(4, 24))
        run_scenario(names)
        steps += len(names)
    return steps


def test_no_wrong_drain_and_no_undrain_without_evidence() -> None:
    assert run_scenarios(20261121, UNIT_SCENARIOS) > UNIT_SCENARIOS


@given(st.lists(st.sampled_from(NAMES), max_size=14))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_short_scenario_ends_without_a_violation(names: list[str]) -> None:
    run_scenario(names)


def test_the_scenarios_reach_their_goals() -> None:
    """Drains, undrains, withdrawals and comments all happen in them; otherwise they test nothing."""
    happened: dict[str, int] = {}
    chance = random.Random(5)
    for _ in range(1500):
        scenario = Scenario()
        drains, undrains = scenario.slurm.on_drain, scenario.slurm.on_undrain

        def drain(reason: str, then: Callable[[str], None] = drains) -> None:
            then(reason)
            happened["drain"] = happened.get("drain", 0) + 1

        def undrain(then: Callable[[], None] = undrains, scenario: Scenario = scenario) -> None:
            then()
            what = "withdrawal" if scenario._inputs().worst else "undrain"
            happened[what] = happened.get(what, 0) + 1

        comments = scenario.slurm.comment

        def comment(
            names: Sequence[SlurmName],
            text: str,
            then: Callable[[Sequence[SlurmName], str], None] = comments,
        ) -> None:
            then(names, text)
            happened["comment"] = happened.get("comment", 0) + bool(text)

        scenario.slurm.on_drain, scenario.slurm.on_undrain = drain, undrain
        scenario.slurm.comment = comment  # type: ignore[method-assign]
        for name in chance.choices(NAMES, weights=WEIGHTS, k=24):
            STEPS[name](scenario)
    assert happened["drain"] > 100, happened
    assert happened["undrain"] > 10, happened
    assert happened["comment"] > 0, happened


DEATH_AFTER_THE_UNDRAIN = (
    "fault_double_bit pass_ mend_gpu_reset human_drains_in_the_moment_of_the_return pass_ "
    "agent_is_killed_soon agent_is_killed_soon agent_is_killed_soon agent_is_killed_soon pass_ pass_ pass_"
)
SCENARIOS = {
    "a fault, a reboot, and back": "fault_falls_off_the_bus pass_ mend_reboot pass_ pass_ pass_",
    "a reset is enough for a double-bit error": "fault_double_bit pass_ mend_gpu_reset pass_ pass_ pass_",
    "a person drains over our drain": (
        "fault_double_bit pass_ human_drains mend_gpu_reset pass_ pass_ pass_"
    ),
    "a person drains in the moment of the return": (
        "fault_double_bit pass_ human_drains_in_the_moment_of_the_return mend_gpu_reset pass_ pass_ pass_ pass_"
    ),
    "the agent dies right after it ended a person's drain": DEATH_AFTER_THE_UNDRAIN,
    "slurmdbd is away when a person drains in the moment of the return": (
        "fault_double_bit pass_ human_drains_in_the_moment_of_the_return slurm_accounting_is_away mend_gpu_reset "
        "pass_ pass_ pass_ pass_ agent_restarts pass_ slurm_accounting_is_back pass_ pass_"
    ),
    "slurmdbd is away, and the node is drained and returns again before it answers": (
        "slurm_accounting_is_away human_drains_in_the_moment_of_the_return fault_mount_flaps fault_mount_flaps "
        "slurm_accounting_is_back pass_ pass_"
    ),
    "slurmdbd is away, and the node is drained for a new fault before it answers": (
        "slurm_accounting_is_away human_drains_in_the_moment_of_the_return fault_mount_flaps "
        "fault_falls_off_the_bus pass_ slurm_accounting_is_back pass_ pass_"
    ),
    "slurmctld is restored after a person's resume and again after his drain": (
        "fault_worn_out human_undrains slurm_is_restored human_drains slurm_is_restored pass_ pass_"
    ),
    "slurmctld is restored after a person's resume, and he drains and resumes the node once more": (
        "fault_worn_out human_undrains slurm_is_restored human_drains human_undrains pass_ pass_"
    ),
    "a person drains with our words": (
        "fault_double_bit pass_ human_drains_with_our_words mend_gpu_reset pass_ pass_ pass_"
    ),
    "the agent dies between its record and its drain": (
        "agent_is_killed_soon fault_double_bit pass_ pass_ mend_gpu_reset pass_ pass_ pass_"
    ),
    "blind after the drain": (
        "fault_mount_hangs pass_ blind_begins mend_mount time_a_minute pass_ pass_ pass_ blind_ends pass_"
    ),
    "slurmctld loses the drain": (
        "fault_falls_off_the_bus pass_ slurm_is_restored pass_ pass_ mend_reboot pass_ pass_ pass_"
    ),
    "slurmctld brings an old drain back": (
        "fault_double_bit pass_ slurm_is_backed_up mend_gpu_reset pass_ pass_ pass_ slurm_is_restored pass_ pass_ pass_"
    ),
    "a person resumes, and slurmctld restarts": (
        "fault_falls_off_the_bus pass_ human_undrains slurm_restarts pass_ pass_"
    ),
    "a mount flaps until a person is asked": (
        "fault_mount_flaps fault_mount_flaps fault_mount_flaps pass_ time_a_minute pass_ human_undrains pass_"
    ),
    "a second fault asks for more": (
        "fault_double_bit pass_ fault_falls_off_the_bus mend_gpu_reset pass_ pass_ pass_"
    ),
}  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_scenario(scenario: str) -> None:
    run_scenario(scenario.split())


def test_a_return_that_is_not_recorded_loses_a_persons_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scenario above depends only on what was saved before the undrain."""

    def without_record(scenario: Scenario) -> None:
        scenario.kept.undrained = None
        FakeNode.restart(scenario)

    monkeypatch.setattr(Scenario, "restart", without_record)
    with pytest.raises(Violation, match="a person's drain was undone"):
        run_scenario(DEATH_AFTER_THE_UNDRAIN.split())
