"""History events from the difference between two moments of a node."""

from __future__ import annotations

from typing import Any

from holdfast.findings import Finding
from holdfast.vocabulary import Action, Mode, Severity
from slurm_hooks.agent.telemetry.changes import Board, Episodes, board_of, boards_of, of_boards
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import GpuFacts

BOARDS = {n: Board(uuid=f"GPU-{n}", serial=f"165{n}", pci=f"0000:0{n}:00") for n in range(8)}


def opened(code: str = "XID79", subject: str = "GPU-3", **more: Any) -> OpenFinding:
    found = Finding(
        code=code,
        severity=more.pop("severity", Severity.FATAL),
        subject=subject,
        detail="GPU 3 fell off",
        action=Action.REBOOT,
        gpu=more.pop("gpu", 3),
        check=more.pop("check", "gpu_xid"),
    )
    return OpenFinding(finding=found, mode=Mode.DRAIN, since=more.pop("since", 100.0))


def test_a_finding_opens_with_its_time_and_its_board() -> None:
    (change,) = Episodes([]).step([opened()], BOARDS, 105.0)
    assert (change.event, change.t) == ("finding_opened", 100.0)
    assert change.facts == {
        "code": "XID79",
        "check": "gpu_xid",
        "subject": "GPU-3",
        "gpu": 3,
        "gpu_uuid": "GPU-3",
        "serial": "1653",
        "severity": "fatal",
        "action": "reboot",
        "mode": "drain",
        "detail": "GPU 3 fell off",
        "cause": True,
    }


def test_it_closes_once_with_the_time_it_was_open() -> None:
    episodes = Episodes([])
    episodes.step([opened()], BOARDS, 105.0)
    assert episodes.step([], BOARDS, 160.0) == [], "it may open again in a moment"
    assert episodes.step([], BOARDS, 459.0) == []
    (change,) = episodes.step([], BOARDS, 460.0)
    assert (change.event, change.t, change.facts["open_s"]) == ("finding_closed", 160.0, 60.0)
    assert "times" not in change.facts
    assert episodes.step([], BOARDS, 470.0) == []


def test_a_flapping_finding_is_one_episode() -> None:
    episodes, told = Episodes([]), []
    for now in range(100, 10_000, 20):
        told += episodes.step([opened()] if now % 40 == 20 else [], BOARDS, float(now))
    for late in (10_000.0, 99_999.0):
        told += episodes.step([], BOARDS, late)
    assert [change.event for change in told] == ["finding_opened", "finding_closed"]
    assert told[1].facts["times"] == 248


def test_a_finding_that_flaps_does_not_fill_the_history() -> None:
    """INFO findings are recorded once an hour at most."""
    episodes, told = Episodes([]), []
    for now in range(0, 86_400, 1200):
        low = opened(severity=Severity.INFO, since=0.0)
        told += episodes.step([low] if now % 2400 else [], BOARDS, float(now))
    assert len(told) == 1


def test_the_agents_stop_records_what_is_closed() -> None:
    episodes = Episodes([opened(), opened("XID48")])
    assert episodes.step([opened()], BOARDS, 150.0) == []
    (change,) = episodes.finish(BOARDS, 160.0)
    assert (change.event, change.t, change.facts["code"]) == ("finding_closed", 150.0, "XID48")


def test_what_an_earlier_agent_recorded_is_not_recorded_again() -> None:
    assert Episodes([opened()]).step([opened()], BOARDS, 1000.0) == []


def test_a_clock_that_was_set_back_gives_no_negative_time() -> None:
    episodes = Episodes([opened()])
    episodes.step([], BOARDS, 50.0)
    (change,) = episodes.finish(BOARDS, 50.0)
    assert change.facts["open_s"] == 0.0


def test_the_same_finding_with_another_detail_is_not_recorded() -> None:
    assert Episodes([opened()]).step([opened(severity=Severity.WARN)], BOARDS, 1.0) == []


def test_two_gpus_with_the_same_code_are_two_findings() -> None:
    after = [opened(), opened(subject="GPU-4", gpu=4)]
    (change,) = Episodes([opened()]).step(after, BOARDS, 1.0)
    assert change.facts["gpu_uuid"] == "GPU-4"


def test_a_fault_stays_with_the_board_that_had_it() -> None:
    """Another GPU is at that index by now: its serial is not the faulty one's."""
    named = board_of("GPU-gone", 3, BOARDS)
    assert named == {"gpu": 3, "gpu_uuid": "GPU-gone", "serial": None}
    assert board_of("gpu3", 3, BOARDS) == {"gpu": 3, "gpu_uuid": "GPU-3", "serial": "1653"}
    assert board_of("/mnt/training", None, BOARDS) == {}
    assert board_of("gpu9", 9, BOARDS) == {"gpu": 9, "gpu_uuid": None, "serial": None}


def test_without_all_gpus_no_change_is_recorded() -> None:
    gpus = [GpuFacts(index=n, uuid=f"GPU-{n}", serial="1") for n in range(8)]
    assert boards_of(gpus[:7], 8) is None
    assert boards_of([*gpus[:7], GpuFacts(index=7)], 8) is None
    assert boards_of([], 0) is None
    full = boards_of(gpus, 8)
    assert full is not None
    assert full[2] == Board(uuid="GPU-2", serial="1")


def test_the_inventory_is_recorded_when_it_changes() -> None:
    def events(before: Any, booted: bool) -> list[str]:
        return [change.event for change in of_boards(before, BOARDS, booted=booted)]

    assert events(None, False) == ["inventory"]
    assert events(BOARDS, False) == []
    assert events(BOARDS, True) == ["inventory"]


def test_a_replaced_gpu_is_recorded_with_both_uuids() -> None:
    after = {**BOARDS, 3: Board(uuid="GPU-new", serial="9", pci="0000:03:00")}
    replaced, inventory = of_boards(BOARDS, after, booted=False)
    assert replaced.event == "gpu_replaced"
    facts = replaced.facts
    assert (facts["gpu"], facts["gpu_uuid"], facts["serial"]) == (3, "GPU-new", "9")
    assert (facts["replaced_uuid"], facts["replaced_serial"]) == ("GPU-3", "1653")
    assert inventory.event == "inventory"
    assert inventory.facts["gpus"][3]["gpu_uuid"] == "GPU-new"


def test_gpus_that_only_got_another_index_are_the_same() -> None:
    shuffled = dict(enumerate(reversed(list(BOARDS.values()))))
    assert list(of_boards(BOARDS, shuffled, booted=False)) == []


def test_another_machine_is_not_recorded_as_replaced_gpus() -> None:
    other = {n: Board(uuid=f"GPU-x{n}") for n in range(8)}
    assert [c.event for c in of_boards(BOARDS, other, booted=True)] == [
        "machine_replaced",
        "inventory",
    ]
