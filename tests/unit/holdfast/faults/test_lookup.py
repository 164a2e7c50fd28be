from __future__ import annotations

import json

import pytest

from holdfast.cli.commands import faults
from holdfast.faults import FAULTS, fault_of, is_known, severity_of
from holdfast.reason import Reason
from holdfast.vocabulary import Action, FaultClass, Severity

# Health-check reference, section 2a: what an H100's Xids require.
RESET = (46, 48, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 158)
JOB = (8, 11, 13, 25, 31, 32, 39, 69, 80, 94, 96, 105, 139)
IGNORED = (37, 43, 44, 45, 63, 66, 67, 92, 106, 107, 121, 141, 152, 153, 171, 172)


def test_every_row_fits_the_wire_format_and_has_a_runbook() -> None:
    for code, row in FAULTS.items():
        assert row.code == code
        assert Reason.parse(str(Reason(code, row.title))) is not None
        assert row.runbook.endswith((".", ":"))
        assert row.title
        assert row.source


def test_fatal_faults_drain_and_require_an_action() -> None:
    for row in FAULTS.values():
        if row.severity is Severity.FATAL:
            assert row.drains
            assert row.action not in (Action.NONE, Action.RESTART_JOB)


def test_an_application_fault_is_never_evidence_against_a_node() -> None:
    for row in FAULTS.values():
        if row.fault_class is FaultClass.APPLICATION:
            assert row.severity is Severity.INFO
            assert not row.drains


@pytest.mark.parametrize("number", RESET)
def test_xids_that_need_a_reset(number: int) -> None:
    row = FAULTS[f"XID{number}"]
    assert (row.severity, row.action) == (Severity.FATAL, Action.RESET_GPU)


@pytest.mark.parametrize("number", JOB)
def test_xids_that_are_the_jobs(number: int) -> None:
    row = FAULTS[f"XID{number}"]
    assert (row.severity, row.action) == (Severity.INFO, Action.RESTART_JOB)


@pytest.mark.parametrize("number", IGNORED)
def test_xids_that_are_only_recorded(number: int) -> None:
    assert FAULTS[f"XID{number}"].severity is Severity.INFO


def test_fell_off_the_bus_needs_a_reboot() -> None:
    row = FAULTS["XID79"]
    assert (row.severity, row.action, row.drains) == (Severity.FATAL, Action.REBOOT, True)


@pytest.mark.parametrize("code", ["XID999", "SXID99999", "FROM_THE_FUTURE"])
def test_what_the_catalogue_lacks_warns_and_never_drains(code: str) -> None:
    assert not is_known(code)
    row = fault_of(code)
    assert (row.code, row.severity, row.drains) == (code, Severity.WARN, False)
    assert severity_of(code) is Severity.WARN


def test_the_command_shows_one_and_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert faults.main(["79"]) == 0
    assert "fallen off the bus" in capsys.readouterr().out
    assert faults.main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(FAULTS) + 1
    assert faults.main(["xid79", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["code"], row["action"], row["drains"]) == ("XID79", "reboot", True)


@pytest.mark.parametrize(("word", "hint"), [("GPU_LOTS", "GPU_LOST"), ("zzz", "lists them all")])
def test_an_unknown_code_gets_a_hint(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert faults.main([word]) == 1
    assert hint in capsys.readouterr().err
