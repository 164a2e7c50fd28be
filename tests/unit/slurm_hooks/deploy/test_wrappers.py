"""The scripts that Slurm starts on each platform: only exit status 10 of a hook is a bad node.

Each script runs under bash and dash, in folders of its own, with hooks in every state: healthy, bad,
stale, missing, failing, killed, truncated and hanging.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from holdfast.cli.commands.render import render_text
from holdfast.version import VERSION

HOOK = Path(__file__).parents[4] / "slurm_hooks/hook"
SHELLS = ("bash", "dash")
BAD = {
    "prolog": 1, "epilog": 1, "runner": 1, "slinky_prolog": 10, "slinky_epilog": 10,
    "slurm/prolog": 10, "slurm/epilog": 10,
}  # fmt: skip
"""Script → its exit status on a bad node. Slurm takes any other status than 0 for one."""

HARMLESS: Mapping[str, str] = {
    "healthy": "exit 0",
    "fails": "exit 1",
    "fails with another status": "exit 127",
    "status 110 is not 10": "exit 110",
    "killed": "kill -KILL $$",
    "crashes": "kill -SEGV $$",
    "truncated": 'if [ "$x" = "',
    "empty": "",
    "hangs": "sleep 60",
    "hangs and ignores SIGTERM": "trap '' TERM; sleep 60 & wait; sleep 60",
}


@functools.cache
def soperator(hooks: str) -> Mapping[str, str]:
    """Name → text of the scripts, as Soperator's chart mounts them; and what the runner runs."""
    scripts = yaml.safe_load(render_text("soperator", hooks=hooks))["slurmScripts"]
    extra = scripts.pop("extra")
    if hooks == "runner":
        scripts["command"] = json.loads(extra["holdfast_prolog.sh"]["config"])["command"]
    return {**scripts, **{name: file["content"] for name, file in extra.items()}}


@functools.cache
def slinky() -> Mapping[str, str]:
    values = yaml.safe_load(render_text("slinky", image="a/b:1"))
    return {
        f"slinky_{context}": values[f"{context}Scripts"]["00-holdfast"]
        for context in ("prolog", "epilog")
    }


class Worker:
    """What a worker's container has, below one folder."""

    def __init__(self, folder: Path, hooks: str = "wrapper") -> None:
        self.folder, self.hooks = folder, hooks
        self.scripts, self.home = folder / "opt/slurm_scripts", folder / "opt/holdfast"
        self.off, self.said = folder / "etc/holdfast/off", folder / "said"
        self.run, self.shell = folder / "run/holdfast", "dash"
        self.limit_s = "20"  # as long as in real use; short only where a hook hangs
        self.log = folder / "var/log/holdfast/agent.worker-0.log"
        for place in (self.scripts, self.off, self.run, self.log.parent):
            place.mkdir(parents=True)
        self.log.touch()
        for name, text in soperator(hooks).items():
            # The installer takes its folders from the environment.
            self.script(name, text if name == "holdfast_install.sh" else self.local(text))
        for name, text in slinky().items():
            self.script(name, self.local(text))
        for context in ("prolog", "epilog"):
            self.script(f"slurm/{context}", self.local(render_text("slurm-hook")))
        for own in self.scripts.glob("soperator_*.sh"):  # {{ $.Files.Get … }} until Helm has run
            self.program(own, f"echo {own.stem.replace('_', '-', 1)} >>{self.said}")

    def local(self, text: str) -> str:
        for place in ("/opt/", "/etc/holdfast", "/run/holdfast", "/var/log/holdfast"):
            text = text.replace(place, f"{self.folder}{place}")
        assert "timeout -k 5 25 " in text or "run_hook" not in text
        return text.replace("timeout -k 5 25 ", 'timeout -k 0.1 "$LIMIT_S" ')

    def script(self, name: str, text: str) -> None:
        path = self.scripts / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def hook(self, name: str, body: str) -> Path:
        path = self.home / "hooks" / name
        self.program(path, f"echo ours-{name} >>{self.said}\n{body}")
        return path

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def start(self, *argv: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": os.environ["PATH"],
            "SLURMD_NODENAME": "worker-0",
            "HOLDFAST_JAIL": str(self.folder / "mnt/jail"),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_ETC": str(self.folder / "etc/holdfast"),
            "HOLDFAST_SCRIPTS": str(self.scripts),
            "HOLDFAST_RUN": str(self.run),
            "HOLDFAST_LOG": str(self.folder / "log"),
            "HOLDFAST_HOOK_TIMEOUT_S": self.limit_s,
            "LIMIT_S": self.limit_s,
            "HOLDFAST_SETTLE_S": "0",
        }
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, env=env, timeout=20, cwd=self.scripts
        )

    def sh(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.start(self.shell, str(self.scripts / script), *words)

    def answer(self, what: str) -> subprocess.CompletedProcess[str]:
        """Runs one of ``BAD`` as Slurm, or Soperator's check runner, runs it."""
        if what == "runner":
            command = soperator("runner")["command"]
            # check_runner.py's run_check
            return self.start("bash", "-l", "-c", f'{command} 3>&1 1>"{self.folder}/out" 2>&1')
        return self.sh(what if what.startswith("sl") else f"{what}.sh")

    def order(self) -> list[str]:
        return self.said.read_text().split() if self.said.exists() else []


@pytest.fixture(params=SHELLS)
def worker(tmp_path: Path, request: pytest.FixtureRequest) -> Worker:
    made = Worker(tmp_path)
    made.shell = request.param
    return made


def machine(folder: Path, what: str, shell: str = "dash") -> Worker:
    made = Worker(folder, "runner" if what == "runner" else "wrapper")
    made.shell = shell
    return made


def context_of(what: str) -> str:
    return "epilog" if what.endswith("epilog") else "prolog"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("what", BAD)
def test_exit_status_10_is_a_bad_node(tmp_path: Path, what: str, shell: str) -> None:
    worker = machine(tmp_path, what, shell)
    worker.hook(context_of(what), "exit 10")
    assert worker.answer(what).returncode == BAD[what]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("what", BAD)
def test_no_other_end_of_a_hook_is_a_bad_node(tmp_path: Path, what: str, shell: str) -> None:
    worker = machine(tmp_path, what, shell)
    for state, body in HARMLESS.items():
        worker.hook(context_of(what), body)
        worker.log.write_text("")
        worker.limit_s = "0.3" if state.startswith("hangs") else "60"
        began = time.monotonic()
        done = worker.answer(what)
        assert done.returncode == 0, (state, done.stderr)
        assert time.monotonic() - began < 55, state
        said = "the node stays in service" in worker.log.read_text()
        assert said == (state not in ("healthy", "empty")), state


@pytest.mark.parametrize("what", BAD)
def test_a_hook_that_cannot_run_is_no_bad_node(tmp_path: Path, what: str) -> None:
    worker = machine(tmp_path, what)
    assert worker.answer(what).returncode == 0, "not installed"
    hook = worker.hook(context_of(what), "exit 10")
    hook.chmod(0o644)
    assert worker.answer(what).returncode == 0, "not executable"
    hook.write_bytes(b"\x7fELF" + bytes(60))
    hook.chmod(0o755)
    assert worker.answer(what).returncode == 0, "not a program"
    hook.unlink()
    hook.symlink_to(tmp_path / "gone")
    assert worker.answer(what).returncode == 0, "a dangling link"
    hook.unlink()
    hook.mkdir()
    assert worker.answer(what).returncode == 0, "a folder"


def test_without_timeout_no_node_is_bad(worker: Worker) -> None:
    """And without PATH, which Slurm does not set."""
    worker.hook("prolog", "exit 10")
    script = worker.scripts / "prolog.sh"
    shell = shutil.which(worker.shell)
    assert shell is not None
    argv = [shell, str(script)]
    env = {"LIMIT_S": "20"}
    assert subprocess.run(argv, env=env, check=False, capture_output=True).returncode == 1
    empty = {**env, "PATH": str(worker.folder)}
    assert subprocess.run(argv, env=empty, check=False, capture_output=True).returncode == 0


# --- the real hook --------------------------------------------------------------------------------


def verdict(worker: Worker, status: str, left_s: int) -> None:
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    found = '{"findings": [{"code": "GPU_LOST", "x": 1}]}'
    text = f"{status} {int(uptime_s) + left_s} {boot} holdfast/1\n{found}\n"
    (worker.run / "verdict").write_text(text)


@pytest.mark.parametrize("what", BAD)
def test_a_stale_verdict_leaves_the_decision_to_the_slow_path(tmp_path: Path, what: str) -> None:
    worker = machine(tmp_path, what)
    worker.hook(context_of(what), "")
    shutil.copy(HOOK, worker.home / "hooks" / context_of(what))
    verdict(worker, "bad", -1)
    for slow_path in ("exit 0", "exit 1", "kill -KILL $$", "sleep 60", "("):
        worker.program(worker.home / "bin/python", slow_path)
        worker.limit_s = "0.3" if slow_path == "sleep 60" else "60"
        assert worker.answer(what).returncode == 0, slow_path
    worker.program(worker.home / "bin/python", "exit 10")
    assert worker.answer(what).returncode == BAD[what]


@pytest.mark.parametrize("status", ["ok", "bad"])
def test_a_truncated_hook_drains_no_healthy_node(tmp_path: Path, status: str) -> None:
    """On a bad node it either refuses the job or, if too much is missing, lets it start."""
    worker = Worker(tmp_path)
    verdict(worker, status, 600)
    worker.program(worker.home / "bin/python", "exit 10")
    hook = worker.hook("prolog", "")
    lines = HOOK.read_text().splitlines(keepends=True)
    answers = []
    for count in (*range(0, len(lines), 3), len(lines)):
        hook.write_text("".join(lines[:count]))
        worker.shell = SHELLS[count % 2]
        answers.append(worker.sh("prolog.sh").returncode)
    assert answers[-1] == (1 if status == "bad" else 0)
    assert set(answers[:-1]) == {0}


# --- what else the scripts do ---------------------------------------------------------------------


def test_a_bad_node_answers_before_soperators_runner_can_hang(worker: Worker) -> None:
    worker.hook("prolog", "exit 10")
    done = worker.sh("prolog.sh")
    assert done.stdout.startswith("print holdfast: node worker-0 is bad")
    assert worker.order() == ["ours-prolog"]


def test_on_a_good_node_both_are_asked_and_ours_first(worker: Worker) -> None:
    worker.hook("prolog", "exit 0")
    assert worker.sh("prolog.sh").returncode == 0
    assert worker.order() == ["ours-prolog", "soperator-prolog"]


@pytest.mark.parametrize("script", ["prolog", "epilog", "hc_program"])
def test_without_holdfast_all_is_as_soperator_left_it(worker: Worker, script: str) -> None:
    assert worker.sh(f"{script}.sh").returncode == 0
    assert worker.order() == [f"soperator-{script}"]


@pytest.mark.parametrize("script", ["prolog", "epilog", "hc_program"])
def test_soperators_own_answer_is_passed_on(worker: Worker, script: str) -> None:
    own = worker.scripts / f"soperator_{script}.sh"
    for status in (1, 3, 127):
        worker.program(own, f"exit {status}")
        assert worker.sh(f"{script}.sh").returncode == status
    own.unlink()
    done = worker.sh(f"{script}.sh")
    assert done.returncode == 0, "the ConfigMap was just replaced"
    assert f"soperator_{script}.sh does not exist: skipped" in done.stderr


@pytest.mark.parametrize(("ours", "theirs", "both"), [(0, 0, 0), (10, 0, 1), (0, 3, 3), (10, 3, 1)])
def test_the_epilog_cleans_up_after_the_job_however_the_node_is(
    worker: Worker, ours: int, theirs: int, both: int
) -> None:
    worker.hook("epilog", f"exit {ours}")
    own = worker.scripts / "soperator_epilog.sh"
    worker.program(own, f"echo theirs >>{worker.said}; exit {theirs}")
    assert worker.sh("epilog.sh").returncode == both
    assert worker.order() == ["ours-epilog", "theirs"]


def test_the_health_check_goes_on_after_any_end_of_ours(worker: Worker) -> None:
    for body in ("exit 1", "kill -KILL $$", "sleep 60", "exit 10"):
        worker.hook("health_check", body)
        worker.limit_s = "0.3" if body.startswith("sleep") else "60"
        worker.said.unlink(missing_ok=True)
        assert worker.sh("hc_program.sh").returncode == 0
        assert worker.order()[-1] == "soperator-hc_program", body


def test_as_a_check_of_the_runner_the_detail_goes_to_descriptor_3(tmp_path: Path) -> None:
    worker = machine(tmp_path, "runner")
    worker.hook("prolog", "exit 10")
    verdict(worker, "bad", 60)
    done = worker.answer("runner")
    assert (done.returncode, done.stdout) == (1, "GPU_LOST\n")
    worker.hook("prolog", "exit 0")
    done = worker.answer("runner")
    assert (done.returncode, done.stdout) == (0, "")
    (worker.scripts / "holdfast_prolog.sh").unlink()
    assert worker.answer("runner").returncode == 0, "the ConfigMap was just replaced"


def test_a_kill_switch_of_the_cluster_comes_and_goes_and_a_persons_own_stays(
    worker: Worker,
) -> None:
    (worker.off / "gpu_thermal").touch()
    (worker.scripts / "holdfast.off.all").touch()
    worker.sh("hc_program.sh")
    assert {file.name for file in worker.off.iterdir()} == {"all", "gpu_thermal"}
    (worker.scripts / "holdfast.off.all").unlink()
    worker.sh("hc_program.sh")
    assert {file.name for file in worker.off.iterdir()} == {"gpu_thermal"}


def jail(worker: Worker, version: str) -> Path:
    """Holdfast as pip leaves it in the jail; its Python answers with that version."""
    place = worker.folder / "mnt/jail/opt/holdfast"
    worker.program(place / "bin/python", f"echo {version}")
    worker.program(place / "hooks/health_check", f"echo ours-health_check >>{worker.said}")
    return place


def test_each_worker_brings_itself_a_copy_from_the_jail(worker: Worker) -> None:
    jail(worker, VERSION)
    assert worker.sh("hc_program.sh").returncode == 0
    deadline = time.monotonic() + 10
    while not worker.home.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert worker.home.is_symlink()
    assert (worker.home / ".brought").read_text().strip() == VERSION
    assert (worker.folder / "etc/holdfast/holdfast.yaml").readlink() == worker.scripts / "holdfast.yaml"  # fmt: skip
    worker.said.unlink()
    worker.sh("hc_program.sh")
    assert worker.order() == ["ours-health_check", "soperator-hc_program"]


def test_a_jail_of_another_version_is_not_brought(worker: Worker) -> None:
    jail(worker, "9.9")
    assert worker.sh("holdfast_install.sh", VERSION).returncode == 1
    said = (worker.folder / "log/install.log").read_text()
    assert f"holds 9.9 and these scripts are of {VERSION}" in said
    assert not worker.home.exists()


def test_an_empty_jail_is_said_and_hurts_nobody(worker: Worker) -> None:
    assert worker.sh("holdfast_install.sh", VERSION).returncode == 1
    assert "install it there, on a login node" in (worker.folder / "log/install.log").read_text()


def test_an_image_that_holds_holdfast_already_is_left_alone(worker: Worker) -> None:
    jail(worker, VERSION)
    worker.hook("health_check", "exit 0")
    worker.sh("hc_program.sh")
    time.sleep(0.5)
    assert not worker.home.is_symlink()
    assert not list(worker.home.parent.glob("holdfast-*"))
