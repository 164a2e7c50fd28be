"""The agent's unit: systemd reads every line of it, and it leaves the agent what it needs."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.commands.render import render_text
from holdfast.errors import UsageError
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.main import restart_argv
from slurm_hooks.settings.sections import AgentConfig


def unit(text: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(text)
    return parsed


def installed(folder: Path) -> str:
    """The unit, of an installation that is there: systemd looks whether it can be started."""
    program = folder / "home/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return render_text("systemd", home=str(folder / "home"), config=str(folder / "holdfast.yaml"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
def test_systemd_takes_every_line(tmp_path: Path) -> None:
    file = tmp_path / "holdfast-agent.service"
    file.write_text(installed(tmp_path))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_COLOR": "0"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    file.write_text(installed(tmp_path / "again") + "Nonsense=yes\n")
    bad = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Nonsense" in bad.stderr, "a line that systemd does not know would have been told"


@pytest.mark.parametrize("name", ["home", "config"])
def test_a_path_with_what_systemd_would_replace_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: must be an absolute path"):
        render_text("systemd", **{name: "/opt/%i"})


def test_it_sees_the_machine_as_jobs_do() -> None:
    """Each of these would give the service mounts or devices of its own."""
    service = unit(render_text("systemd"))["Service"]
    own_view = ("Protect", "Private", "ReadOnly", "ReadWrite", "Inaccessible", "Bind", "Root",
                "TemporaryFileSystem", "Device", "MountFlags", "DynamicUser", "User")  # fmt: skip
    assert [key for key in service if key.startswith(own_view)] == []


def test_it_comes_back_however_it_ended_and_never_waits_for_a_hung_probe() -> None:
    service = unit(render_text("systemd"))["Service"]
    assert service["Restart"] == "always"
    assert not any(key.startswith("RestartPrevent") for key in service)
    assert service["KillMode"] == "mixed"
    assert service["RuntimeDirectoryPreserve"] == "yes"
    assert "--wait" in service["ExecStart"]


def test_a_health_check_knows_it_as_an_agent() -> None:
    """By the same words that it starts one with: else it would never end one that hangs."""
    service = unit(render_text("systemd"))["Service"]
    words = " ".join(restart_argv(SlurmName("n"), Path("/c"))[1:4])
    assert service["ExecStart"].startswith(f"/opt/holdfast/bin/python {words} ")


def test_systemd_hears_from_the_agent_and_is_patient_enough() -> None:
    service = unit(render_text("systemd", watchdog_s="300"))["Service"]
    assert (service["Type"], service["WatchdogSec"]) == ("notify", "300")
    default = float(unit(render_text("systemd"))["Service"]["WatchdogSec"])
    assert default > 3 * (AgentConfig().interval_s + AgentConfig().probe_deadline_s)


@pytest.mark.parametrize(
    "needed",
    [
        *("CAP_KILL", "CAP_SYS_PTRACE", "CAP_SYSLOG", "CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN"),
        *("CAP_SETUID", "CAP_SETGID"),
    ],
)
def test_it_keeps_what_the_agent_needs_and_no_more(needed: str) -> None:
    kept = unit(render_text("systemd"))["Service"]["CapabilityBoundingSet"].split()
    assert needed in kept
    assert not {
        "CAP_SYS_MODULE",
        "CAP_SYS_BOOT",
        "CAP_SYS_TIME",
        "CAP_NET_ADMIN",
    } & set(kept)
