"""Probes that ask a program: slurmd by scontrol, DCGM, mlxlink. Programs made for it stand in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.errors import CommandError, ProbeError
from slurm_hooks.facts import DcgmIncident, SlurmdFacts
from slurm_hooks.probes import dcgm, mlxlink, slurmd

# --- slurmd ---------------------------------------------------------------------------------------

SLURMD = """\
Active Steps             = NONE
Boot time                = {boot}
Hostname                 = worker-0
Last slurmctld msg time  = {heard}
Slurmd PID               = 18
Version                  = 24.11.5
"""


@pytest.mark.parametrize(
    ("heard", "heard_s"),
    [("1795241687", 3.0), ("2026-11-21T06:14:47", 3.0), ("NONE", None), ("9" * 400, None)],
)
def test_the_report_of_slurmd(heard: str, heard_s: float | None) -> None:
    facts = slurmd.parse(SLURMD.format(boot=heard, heard=heard), 1795241690.0)
    assert facts == SlurmdFacts(answers=True, version="24.11.5", heard_s=heard_s)


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_slurmd_that_does_not_answer(tmp_path: Path) -> None:
    program(tmp_path, "scontrol", "echo 'slurm_load_slurmd_status: Connection refused' >&2; exit 1")
    (facts,) = slurmd.open_probe(5.0, str(tmp_path))(None)
    assert not facts.answers
    program(tmp_path, "scontrol", "exec sleep 5")
    assert slurmd.ask(str(tmp_path / "scontrol"), 0.2).detail == "no answer in 0.2 s"
    program(
        tmp_path, "scontrol", "echo 'fatal: Could not establish a configuration source' >&2; exit 1"
    )
    with pytest.raises(CommandError):
        slurmd.ask(str(tmp_path / "scontrol"), 5.0)
    with pytest.raises(ProbeError, match="scontrol not found"):
        next(slurmd.open_probe(5.0, str(tmp_path / "none"))(None))


# --- mlxlink --------------------------------------------------------------------------------------

LINK = """{
    "result": {
        "output": {
            "Physical Counters and BER Info": {
                "Time Since Last Clear [Min]": "4321.7",
                "Symbol Errors": "0",
                "Symbol BER": "15E-255",
                "Effective Physical Errors": "81",
                "Effective Physical BER": "2E-12",
                "Raw Physical Errors Per Lane": {"values": ["1", "2", "3", "4"]},
                "Link Down Counter": "N/A"
            }
        }
    },
    "status": {"code": 0, "message": "success"}
}
"""
"""As mlxlink of MFT prints it."""


def test_a_link_as_mlxlink_reports_it() -> None:
    facts = mlxlink.parse("mlx5_0", LINK)
    assert (facts.minutes, facts.effective_ber) == (4321.7, 2e-12)
    assert facts.symbol_ber == 15e-255
    unknown = mlxlink.parse("mlx5_0", LINK.replace("2E-12", "N/A").replace("4321.7", "nan"))
    assert (unknown.minutes, unknown.effective_ber) == (None, None)


@pytest.mark.parametrize("text", ["", "{", "-E- Failed to open device", '{"result": []}', "null"])
def test_an_mlxlink_without_a_report(text: str) -> None:
    with pytest.raises(ProbeError, match="mlxlink of mlx5_0: "):
        mlxlink.parse("mlx5_0", text)


def test_mlxlink_as_a_program(tmp_path: Path) -> None:
    (tmp_path / "class/infiniband/mlx5_0").mkdir(parents=True)
    (tmp_path / "class/infiniband/mlx5_1").mkdir()
    assert list(mlxlink.open_probe(tmp_path, 5.0, str(tmp_path))(None)) == []
    (tmp_path / "link.json").write_text(LINK)
    program(tmp_path, "mlxlink", f'[ "$*" = "-d mlx5_1 -c --json" ] && cat {tmp_path}/link.json')
    (links,) = mlxlink.open_probe(tmp_path, 5.0, str(tmp_path))(None)
    assert [link.device for link in links] == ["mlx5_1"], "the other one does not tell"
    program(tmp_path, "mlxlink", "echo '-E- no access' ; exit 1")
    with pytest.raises(ProbeError, match="no access"):
        list(mlxlink.open_probe(tmp_path, 5.0, str(tmp_path))(None))


# --- DCGM -----------------------------------------------------------------------------------------

REPORT = {
    "body": {
        "GPU": {
            "children": {
                "3": {
                    "children": {
                        "Errors": {
                            "children": {
                                "Memory system": {
                                    "overflow": ["A DBE was detected", "on page 12."],
                                    "value": "Failure",
                                },
                                "Thermal system": {"overflow": ["Hot."], "value": "Warning"},
                            }
                        }
                    },
                    "value": "Failure",
                }
            }
        },
        "Overall Health": {"value": "Failure"},
    },
    "header": ["Health Monitor Report"],
}
"""As DcgmiOutputJson writes the tree of Health.cpp."""


def test_a_report_of_dcgm() -> None:
    facts = dcgm.parse(json.dumps(REPORT, indent=3))
    assert facts.overall == "Failure"
    assert facts.incidents == (
        DcgmIncident(
            entity="GPU",
            entity_id="3",
            system="Memory system",
            health="Failure",
            text="A DBE was detected on page 12.",
        ),
        DcgmIncident(
            entity="GPU", entity_id="3", system="Thermal system", health="Warning", text="Hot."
        ),
    )
    healthy = dcgm.parse('{"body": {"Overall Health": {"value": "Healthy"}}, "header": []}')
    assert (healthy.overall, healthy.incidents) == ("Healthy", ())


@pytest.mark.parametrize(
    "text",
    [
        "Error: Health watches not enabled. Please enable watches. \n",
        "Error: unable to establish a connection to the specified host: localhost",
        "",
        "{",
        "[]",
        '{"body": null}',
        '{"body": {"Overall Health": {"value": "Splendid"}}}',
        '{"body": {"Overall Health": "Healthy"}}',
    ],
)
def test_a_dcgm_without_a_report_is_not_healthy(text: str) -> None:
    with pytest.raises(ProbeError, match="dcgmi health: "):
        dcgm.parse(text)


@pytest.mark.parametrize(
    "body",
    [
        {"GPU": None},
        {"GPU": {"children": []}},
        {"GPU": {"children": {"0": {"children": {"Errors": {"children": {"X": 7}}}}}}},
    ],
)
def test_odd_reports_do_not_break_the_reader(body: dict[str, object]) -> None:
    report = {"body": {**body, "Overall Health": {"value": "Warning"}}}
    assert dcgm.parse(json.dumps(report)).overall == "Warning"


def test_dcgmi_as_a_program(tmp_path: Path) -> None:
    assert list(dcgm.open_probe(5.0, str(tmp_path))(None)) == [], "not installed: nothing is known"
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    program(tmp_path, "dcgmi", f'[ "$*" = "health -c -j" ] && cat {tmp_path}/report.json')
    (facts,) = dcgm.open_probe(5.0, str(tmp_path))(None)
    assert facts.overall == "Failure"
