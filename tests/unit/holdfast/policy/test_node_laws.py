"""The laws in any situation at all, not only in those that somebody thought of."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.findings import Finding, Verdict
from holdfast.policy.node import decide, draining
from holdfast.policy.node_inputs import Move, NodeSituation
from holdfast.policy.ownership import is_own_drain
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action, Mode, NodeState, Severity, SlurmName
from tests.unit.holdfast.policy.node_examples import (
    BOOT,
    FULL,
    LATER,
    LIMITS,
    NEXT_BOOT,
    NOON,
    OUR_TEXT,
    ROOM,
    record,
)

# --- whatever happens

FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(["XID79", "XID48", "XID31", "MOUNT_HUNG", "ROW_REMAP_PENDING", "XID999"]),
    severity=st.sampled_from(Severity),
    subject=st.just("GPU-3"),
    detail=st.text(max_size=20),
    action=st.sampled_from(Action),
    gpu=st.one_of(st.none(), st.integers(0, 7)),
    check=st.sampled_from(["gpu_xid", "mounts"]),
)
VERDICTS = st.builds(
    Verdict,
    findings=st.lists(FINDINGS, max_size=3).map(tuple),
    blind=st.sampled_from([(), ("nvml",)]),
)
STATES = st.sets(st.sampled_from(NodeState), max_size=4).map(frozenset)
NODES = st.builds(
    SlurmNode,
    name=st.just(SlurmName("worker-1")),
    states=STATES,
    reason=st.sampled_from(
        [
            "",
            OUR_TEXT,
            f"{OUR_TEXT} : Not responding",
            "swap DIMM",
            "holdfast:XID48: y",
            "Not responding",
        ]
    ),
    reason_user=st.sampled_from(["root", "slurm", "ada"]),
    reason_at=st.sampled_from([None, NOON, LATER]),
    comment=st.sampled_from(["", "mine", "holdfast:XID48: y"]),
    instance_id=st.sampled_from(["", "computeinstance-1", "computeinstance-2"]),
)
SITUATIONS = st.builds(
    NodeSituation,
    verdict=VERDICTS,
    node=st.one_of(st.none(), NODES),
    boot_id=st.sampled_from(["", BOOT, NEXT_BOOT]),
    modes=st.dictionaries(st.sampled_from(["gpu_xid", "mounts"]), st.sampled_from(Mode)),
    record=st.one_of(
        st.none(), st.builds(record, st.sampled_from(Action)), st.just(replace(record(), at=None))
    ),
    clean_passes=st.integers(0, 3),
    gpu_recovered=st.sampled_from([None, False, True]),
    admission=st.sampled_from([None, ROOM, FULL]),
    must_withdraw=st.booleans(),
    switched_off=st.booleans(),
)


@settings(max_examples=600, deadline=None)
@given(SITUATIONS)
def test_no_situation_at_all_breaks_a_law(given_: NodeSituation) -> None:
    decision = decide(given_, LIMITS, LATER)
    node = given_.node
    if given_.switched_off or node is None:
        assert decision.move is Move.NONE
        return
    ours = is_own_drain(given_.record, node)
    if decision.move in (Move.UNDRAIN, Move.WITHDRAW):
        assert ours
    if decision.move is Move.UNDRAIN:
        assert not given_.verdict.blind
        assert draining(given_.verdict, given_.modes) is None
        assert given_.clean_passes >= LIMITS.recheck_passes
    if decision.move is Move.DRAIN:
        assert decision.finding is not None
        assert given_.modes[decision.finding.check] is Mode.DRAIN
        assert str(Reason.parse(decision.reason)) == decision.reason
        assert not node.drained_flag or ours
        assert ours or (given_.admission is not None and given_.admission.admitted)
        if node.reason == "swap DIMM":  # a stale reason may go, a standing one not
            assert not node.states & {NodeState.DOWN, NodeState.FAIL, NodeState.ERROR}
    if decision.move in (Move.COMMENT, Move.WITHDRAW):
        assert decision.reason == "" or Reason.parse(decision.reason) is not None
    if decision.move is Move.COMMENT:
        assert node.comment != "mine"
        assert node.comment != decision.reason
    assert decision.why
