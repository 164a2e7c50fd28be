"""Inspections on a schedule: each form says the same time and the same words, in its own grammar."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.render import render_text
from holdfast.errors import UsageError
from slurm_hooks.active import command

KINDS = ("cron", "scrontab", "service", "timer")
IMAGE = "registry.example.org/holdfast:1"


def lines(kind: str, **values: str) -> list[str]:
    text = render_text("inspection", kind=kind, **values)
    return [line for line in text.splitlines() if line and not line.startswith("# ")]


def job(**values: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(render_text("inspection-cronjob", image=IMAGE, **values))
    return read


@pytest.mark.parametrize(
    ("at", "days", "cron", "calendar"),
    [
        ("03:15", "", "15 3 * * *", "*-*-* 03:15:00"),
        ("00:00", "Sat,Sun", "0 0 * * 0,6", "Sun,Sat *-*-* 00:00:00"),
        ("23:59", "Mon", "59 23 * * 1", "Mon *-*-* 23:59:00"),
    ],
)
def test_all_forms_mean_the_same_moment(at: str, days: str, cron: str, calendar: str) -> None:
    when = {"at": at, "days": days}
    assert lines("cron", **when)[0].startswith(f"{cron}  root  ")
    assert lines("scrontab", **when)[-1].startswith(f"{cron} /opt/holdfast/bin/holdfast inspect")
    assert f"OnCalendar={calendar}" in lines("timer", **when)
    assert job(**when)["spec"]["schedule"] == cron


def test_all_forms_run_the_same_words_and_inspect_knows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {"checks": "host,dcgm_diag_r3", "home": "/usr/local/holdfast/", "idle_only": "false"}
    words = ["inspect", "--check", "host", "--check", "dcgm_diag_r3"]
    line = " ".join(["/usr/local/holdfast/bin/holdfast", *words])
    assert f" {line} >" in lines("cron", **asked)[0]
    assert lines("scrontab", **asked)[-1].endswith(f" {line}")
    assert f"ExecStart={line}" in lines("service", **asked)
    container = job(**asked)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    assert " ".join(container["command"]) == line
    # Anything that it does not know would end with argparse's SystemExit.
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="only root"):
        command.main([*words[1:], "--idle", "--config", "/nowhere/holdfast.yaml"])


@pytest.mark.parametrize(
    ("auth", "program", "socket"),
    [("munge", "munged", "/run/munge"), ("slurm", "sackd", "/run/slurm")],
)
def test_a_side_car_of_the_cronjob_has_the_clusters_key(
    auth: str, program: str, socket: str
) -> None:
    made = job(auth=auth, auth_path="/k")
    pod = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (side_car,), (inspect,) = pod["initContainers"], pod["containers"]
    assert side_car["restartPolicy"] == "Always", "a Job ends although it runs"
    assert (side_car["name"], side_car["command"][0]) == (program, program)
    assert f"/k/{auth}.key" in str(side_car)
    assert side_car["image"] == IMAGE
    mounts = {one["name"]: one["mountPath"] for one in inspect["volumeMounts"]}
    assert mounts["auth-socket"] == socket
    assert "slurm-auth" not in mounts
    assert {"slurm-auth", "auth-socket"} <= {one["name"] for one in side_car["volumeMounts"]}
    volumes = {one["name"] for one in pod["volumes"]}
    assert {one["name"] for one in (*side_car["volumeMounts"], *inspect["volumeMounts"])} == volumes


def test_a_run_that_takes_too_long_is_ended_everywhere() -> None:
    assert "timeout 7200 /opt" in lines("cron", limit_h="2")[0]
    assert "--time=2:00:00" in lines("scrontab", limit_h="2")[0]
    assert "TimeoutStartSec=2h" in lines("service", limit_h="2")
    assert job(limit_h="2")["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 7200


def test_another_configuration_is_named_and_the_usual_one_is_not() -> None:
    line = "ExecStart=/opt/holdfast/bin/holdfast inspect --idle --config /srv/h.yaml"
    assert line in lines("service", config="/srv/h.yaml")
    assert not any("--config" in line for line in lines("service"))


def test_the_cron_job_is_root_for_slurm_and_has_no_right_in_its_pod() -> None:
    spec = job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    context = spec["containers"][0]["securityContext"]
    assert (context["runAsUser"], context["capabilities"]) == (0, {"drop": ["ALL"]})
    assert context["readOnlyRootFilesystem"] is True
    assert spec["automountServiceAccountToken"] is False
    assert job()["spec"]["concurrencyPolicy"] == "Forbid"
    assert job()["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0


def test_reports_are_kept_where_a_claim_is_given() -> None:
    def state(**values: str) -> dict[str, Any]:
        volumes = job(**values)["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"]
        found: dict[str, Any] = next(one for one in volumes if one["name"] == "state")
        return found

    assert state() == {"name": "state", "emptyDir": {}}
    claim = {"claimName": "holdfast-reports"}
    assert state(state_claim="holdfast-reports") == {
        "name": "state",
        "persistentVolumeClaim": claim,
    }


def test_a_name_of_digits_alone_stays_a_name() -> None:
    assert job(namespace="123", config_map="0")["metadata"]["namespace"] == "123"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
def test_systemd_takes_both_units_and_reads_the_time_as_meant(tmp_path: Path) -> None:
    program = tmp_path / "home/bin/holdfast"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    files = []
    for kind in ("service", "timer"):
        files.append(tmp_path / f"holdfast-inspection.{kind}")
        home = str(tmp_path / "home")
        files[-1].write_text(render_text("inspection", kind=kind, home=home, days="Mon,Fri"))
    env = {**os.environ, "SYSTEMD_LOG_COLOR": "0", "TZ": "UTC"}
    argv = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    said = next(line for line in lines("timer", days="Fri,Mon") if line.startswith("OnCalendar="))
    argv = ["systemd-analyze", "calendar", "--base-time=2026-11-21 12:00", said.partition("=")[2]]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
    assert "Next elapse: Mon 2026-11-23 03:15:00 UTC" in done.stdout


@pytest.mark.parametrize(
    ("what", "values", "said"),
    [
        ("inspection", {"kind": "crontab"}, "kind: must be one of cron, scrontab, service, timer"),
        ("inspection", {"kind": "cron", "at": "24:00"}, "at: '24:00' does not fit"),
        ("inspection", {"kind": "cron", "at": "3:15"}, "at: '3:15' does not fit"),
        ("inspection", {"kind": "cron", "days": "Monday"}, "days: 'Monday' does not fit"),
        ("inspection", {"kind": "cron", "limit_h": "24"}, "limit_h: '24' does not fit"),
        ("inspection", {"kind": "cron", "checks": "hosts"}, "no active check is called 'hosts'"),
        ("inspection", {"kind": "cron", "home": "/opt/50%"}, "home: must be an absolute path"),
        ("inspection", {"kind": "timer", "image": IMAGE}, "no value is called 'image'"),
        ("inspection-cronjob", {}, "image has no default; give it with --set image=… (Slurm's"),
        ("inspection-cronjob", {"image": IMAGE, "state_claim": "A"}, "state_claim: must be"),
        ("inspection-cronjob", {"image": IMAGE, "time_zone": "a b"}, "time_zone: 'a b'"),
        ("inspection-cronjob", {"image": IMAGE, "kind": "cron"}, "no value is called 'kind'"),
    ],
    ids=json.dumps,
)
def test_what_cannot_be_taken_is_said_in_one_line(
    what: str, values: Mapping[str, str], said: str
) -> None:
    with pytest.raises(UsageError) as error:
        render_text(what, **values)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
