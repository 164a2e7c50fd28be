"""The sh hook: answers from the verdict alone, and never drains a node because of an internal
error."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from holdfast.records import verdict_file
from holdfast.vocabulary import Status
from slurm_hooks.node import machine

HOOK = Path(__file__).parents[4] / "slurm_hooks" / "hook"


class Node:
    """One node's folders; ``python`` is what the hook finds as its slow path."""

    def __init__(self, folder: Path) -> None:
        self.run, self.home, self.hooks = folder / "run", folder / "home", folder / "hooks"
        for path in (self.run / "ended", self.run / "jobs", self.home / "bin", self.hooks):
            path.mkdir(parents=True)
        for name in ("prolog", "epilog", "health_check"):
            (self.hooks / name).symlink_to(HOOK)
        self.python("exit 0")

    def python(self, body: str) -> None:
        path = self.home / "bin" / "python"
        path.write_text(f'#!/bin/sh\necho "$@" >>{self.home}/asked\n{body}\n')
        path.chmod(0o755)

    def publish(self, status: str, ttl_s: int = 60, boot: str = "", **detail: object) -> None:
        text = verdict_file.render(
            Status(status),
            expires_s=int(machine.uptime_s()) + ttl_s,
            boot_id=boot or machine.boot_id(),
            detail=dict(detail),
        )
        verdict_file.write(verdict_file.path_in(self.run), text)

    def hook(self, name: str, **env: str) -> subprocess.CompletedProcess[str]:
        full = {"HOLDFAST_RUN": str(self.run), "HOLDFAST_HOME": str(self.home), **env}
        argv = [str(self.hooks / name)]
        return subprocess.run(argv, env=full, capture_output=True, text=True, check=False)

    @property
    def asked(self) -> str:
        path = self.home / "asked"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("status", ["ok", "suspect"])
def test_the_prolog_of_a_node_in_service_answers_without_python(node: Node, status: str) -> None:
    node.publish(status)
    result = node.hook("prolog")
    assert (result.returncode, node.asked, result.stderr) == (0, "", "")


def test_a_bad_node_is_refused_only_by_the_slow_path(node: Node) -> None:
    """Only the slow path knows the budget, and a refusal makes slurmctld drain the node (rule 4)."""
    for drained in (True, False):
        node.publish("bad", drained=drained)
        node.python("exit 10")
        assert node.hook("prolog").returncode == 10
        node.python("exit 0")
        assert node.hook("prolog").returncode == 0


@pytest.mark.parametrize("status", ["bad", "blind"])
def test_other_verdicts_are_decided_by_the_slow_path(node: Node, status: str) -> None:
    node.publish(status)
    result = node.hook("prolog")
    assert (result.returncode, result.stderr) == (0, "")
    assert node.asked == "-I -m slurm_hooks.hooks.prolog\n"


def test_the_slow_path_has_a_search_path(node: Node) -> None:
    """Slurm gives its hooks no PATH."""
    node.python(f"/usr/bin/env >{node.home}/env")
    node.publish("bad")
    node.hook("prolog")
    assert "\nPATH=/usr/local/sbin:" in "\n" + (node.home / "env").read_text()


@pytest.mark.parametrize("status", ["ok", "suspect", "bad"])
@pytest.mark.parametrize(
    "what", ["expired", "another boot", "format", "garbage", "empty", "missing"]
)
def test_an_invalid_verdict_is_blind(node: Node, what: str, status: str) -> None:
    """The slow path decides regardless of the file; here it refuses the node."""
    path = verdict_file.path_in(node.run)
    if what == "expired":
        node.publish(status, ttl_s=-5)
    elif what == "another boot":
        node.publish(status, boot="11111111-2222-3333-4444-555555555555")
    elif what == "format":
        node.publish(status)
        path.write_text(path.read_text().replace("holdfast/1", "holdfast/2"))
    elif what == "garbage":
        path.write_text(f"{status} soon here holdfast/1\n")
    elif what == "empty":
        path.write_text("")
    node.python("exit 10")
    result = node.hook("prolog")
    assert (result.returncode, result.stderr) == (10, "")
    assert node.asked == "-I -m slurm_hooks.hooks.prolog\n"


def test_a_verdict_counts_until_the_second_in_which_it_expires(node: Node) -> None:
    node.publish("ok", ttl_s=0)
    node.python("exit 10")
    # The next second may begin meanwhile; then it has expired.
    before = int(machine.uptime_s())
    result = node.hook("prolog")
    if int(machine.uptime_s()) == before:
        assert (result.returncode, node.asked) == (0, "")


@pytest.mark.parametrize(
    ("reservation", "uid", "asked"),
    [
        ("holdfast_worker-0", "0", False),
        ("holdfast_worker-0", "2001", True),
        ("holdfast_worker-0", "", True),
        ("maintenance", "0", True),
        ("", "0", True),
    ],
)
def test_only_roots_job_in_a_reservation_of_holdfast_starts_on_a_bad_node(
    node: Node, reservation: str, uid: str, asked: bool
) -> None:
    node.publish("bad")
    node.python("exit 10")
    result = node.hook("prolog", SLURM_JOB_RESERVATION=reservation, SLURM_JOB_UID=uid)
    assert result.returncode == (10 if asked else 0)
    assert bool(node.asked) is asked


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("exit 10", 10),
        ("exit 1", 0),
        ("exit 2", 0),
        ("exit 127", 0),
        ("kill -9 $$", 0),
        ("sleep 60", 0),
    ],
)
def test_only_exit_status_10_is_passed_on(node: Node, tmp_path: Path, body: str, code: int) -> None:
    node.python(body)
    log = tmp_path / "agent.w.log"
    log.touch()
    env = {"HOLDFAST_LOG": str(tmp_path), "SLURMD_NODENAME": "w"}
    # A busy machine may take seconds to start the program.
    env["HOLDFAST_HOOK_TIMEOUT_S"] = "0.5" if "sleep" in body else "60"
    result = node.hook("prolog", **env)
    assert result.returncode == code
    assert ("the node stays in service" in log.read_text()) == (code == 0)


def test_messages_are_in_the_agents_log_and_not_lost_without_syslog(
    node: Node, tmp_path: Path
) -> None:
    logger, log = tmp_path / "logger", tmp_path / "agent.w.log"
    logger.write_text("#!/bin/sh\nexit 0\n")
    logger.chmod(0o755)
    log.touch()
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOLDFAST_LOG": str(tmp_path)}
    result = node.hook("prolog", HOLDFAST_HOOK="x", SLURMD_NODENAME="w", **env)
    assert result.returncode == 0
    said = "called as x: link it as prolog, epilog or health_check"
    assert re.fullmatch(rf"20\d\d-\S+Z error x: {said}\n", log.read_text())
    if not Path("/dev/log").exists():
        assert result.stderr == f"holdfast-x: {said}\n"
    log.unlink()
    node.hook("prolog", HOLDFAST_HOOK="x", SLURMD_NODENAME="w", **env)
    assert not log.exists(), "only the agent creates its log"


def test_without_an_interpreter_the_node_stays_in_service(node: Node) -> None:
    (node.home / "bin" / "python").unlink()
    assert node.hook("prolog").returncode == 0


def test_the_epilog_leaves_a_note_for_the_agent(node: Node) -> None:
    node.publish("ok")
    (node.run / "jobs" / "4711.json").touch()
    assert node.hook("epilog", SLURM_JOB_ID="4711").returncode == 0
    assert [path.name for path in (node.run / "ended").iterdir()] == ["4711"]
    assert node.asked == ""


@pytest.mark.parametrize("name", ["prolog", "epilog"])
@pytest.mark.parametrize(
    ("job", "restarts"),
    [("../x", "0"), ("7/../x", "0"), ("x", "0"), ("", "0"), ("7", "0/../../x"), ("7", "x")],
)
def test_notes_are_written_only_in_their_folder(
    node: Node, name: str, job: str, restarts: str
) -> None:
    (node.run / "notes" / "7").mkdir(parents=True)
    node.publish("ok")
    node.hook(name, SLURM_JOB_ID=job, SLURM_JOB_RESTART_COUNT=restarts)
    made = {path.name for path in node.run.rglob("*") if path.is_file()} - {"verdict"}
    assert made <= ({"7"} if job == "7" and name == "epilog" else set())


@pytest.mark.parametrize("job", ["../x", "x", "7x", ""])
def test_the_epilog_wakes_the_agent_only_for_a_job_id_of_digits(node: Node, job: str) -> None:
    """Even if a file with the name of the marker exists."""
    node.publish("ok")
    (node.run / "jobs" / f"{job}.json").touch()
    before = sorted(node.run.rglob("*"))
    assert node.hook("epilog", SLURM_JOB_ID=job).returncode == 0
    assert sorted(node.run.rglob("*")) == before


@pytest.mark.parametrize("status", ["ok", "suspect"])
def test_the_epilog_of_a_node_in_service_answers_without_python(node: Node, status: str) -> None:
    node.publish(status)
    assert node.hook("epilog").returncode == 0
    assert node.asked == ""


def test_a_job_without_a_marker_leaves_no_file(node: Node) -> None:
    """While no agent runs, ten thousand small jobs of a user would fill the node's memory."""
    node.publish("ok")
    assert node.hook("epilog", SLURM_JOB_ID="4711").returncode == 0
    assert list((node.run / "ended").iterdir()) == []


def test_a_job_that_starts_before_the_first_agent_leaves_a_note(node: Node) -> None:
    """A node that has just booted: the folder does not exist yet."""
    node.run = node.run / "not" / "there"
    assert node.hook("prolog", SLURM_JOB_ID="4711").returncode == 0
    assert (node.run / "notes" / "4711.0.start").read_text().startswith("holdfast-job/1 start 4711")
    assert (node.run / "notes").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(("verdict", "left"), [("fresh", True), ("expired", False)])
def test_without_an_agent_notes_do_not_pile_up(node: Node, verdict: str, left: bool) -> None:
    node.publish("ok", ttl_s=60 if verdict == "fresh" else -5)
    notes = node.run / "notes"
    notes.mkdir()
    for number in range(1024):
        (notes / f"{number}.0.start").touch()
    node.hook("prolog", SLURM_JOB_ID="4711")
    assert (notes / "4711.0.start").exists()
    node.hook("epilog", SLURM_JOB_ID="4711")
    assert (notes / "4711.0.end").exists() is left


def test_the_epilog_leaves_a_drained_node_to_the_agent(node: Node) -> None:
    node.publish("bad", drained=True)
    node.python("exit 10")
    assert node.hook("epilog").returncode == 0
    assert node.asked == ""
    node.publish("bad", drained=False)
    assert node.hook("epilog").returncode == 10


def test_an_epilog_without_a_folder_for_notes_succeeds(node: Node) -> None:
    node.publish("ok")
    (node.run / "ended").rmdir()
    result = node.hook("epilog", SLURM_JOB_ID="1")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("status", ["ok", "bad", "blind", "suspect"])
def test_the_health_check_does_nothing_while_an_agent_runs(node: Node, status: str) -> None:
    node.publish(status)
    (node.run / "agent.lock").write_text(f"{os.getpid()}\n")
    assert node.hook("health_check").returncode == 0
    assert node.asked == ""


def test_the_health_check_handles_an_agent_that_exited_and_never_fails(node: Node) -> None:
    node.publish("ok")
    child = subprocess.Popen(["true"])
    child.wait()
    (node.run / "agent.lock").write_text(f"{child.pid}\n")
    node.python("exit 10")
    assert node.hook("health_check").returncode == 0
    assert "slurm_hooks.hooks.health_check" in node.asked


def test_the_health_check_handles_an_agent_that_publishes_nothing(node: Node) -> None:
    node.publish("ok", ttl_s=-5)
    (node.run / "agent.lock").write_text(f"{os.getpid()}\n")
    node.hook("health_check")
    assert "slurm_hooks.hooks.health_check" in node.asked


def test_under_any_other_name_it_does_nothing(node: Node) -> None:
    (node.hooks / "other").symlink_to(HOOK)
    assert node.hook("other").returncode == 0
    assert node.asked == ""


def _without_processes(argv: list[str], env: dict[str, str]) -> int:
    """Exit status of a program that may not start any other, nor fork a subshell."""
    root = os.geteuid() == 0
    with HOOK.open() as script:
        done = subprocess.run(
            argv,
            env=env,
            stdin=script,
            stderr=subprocess.DEVNULL,
            user=65534 if root else None,  # the limit does not bind root
            group=65534 if root else None,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)),
            check=False,
        )
    return done.returncode


def test_a_healthy_prolog_starts_no_process(node: Node) -> None:
    """This makes it nearly as fast as ``sh -c :`` (scripts/bench prolog)."""
    node.publish("ok", findings=[{"detail": "x" * 4000}])
    with tempfile.TemporaryDirectory() as text:  # readable for the user nobody too
        run = Path(text)
        run.chmod(0o755)
        (run / "notes").mkdir()
        (run / "notes").chmod(0o777)
        shutil.copy(verdict_file.path_in(node.run), run / "verdict")
        env = {"HOLDFAST_RUN": text, "HOLDFAST_HOOK": "prolog", "SLURM_JOB_ID": "7"}
        assert _without_processes(["/bin/sh", "-s"], env) == 0
        assert (run / "notes" / "7.0.start").read_text().startswith("holdfast-job/1 start 7 0 ")
    assert _without_processes(["/bin/sh", "-c", "(exit 0)"], {}) != 0, "the limit holds"


def test_the_verdict_reads_back(node: Node) -> None:
    node.publish("bad", findings=[{"code": "XID79"}], drained=True)
    path = verdict_file.path_in(node.run)
    read = verdict_file.read(path, boot_id=machine.boot_id(), uptime_s=machine.uptime_s())
    assert (read.status, read.fresh, read.drained) == (Status.BAD, True, True)
    assert read.findings == [{"code": "XID79"}]
    late = verdict_file.read(path, boot_id=machine.boot_id(), uptime_s=machine.uptime_s() + 99)
    assert (late.status, late.fresh) == (Status.BLIND, False)
    assert "expired" in late.why
    foreign = verdict_file.read(path, boot_id="x", uptime_s=machine.uptime_s())
    assert foreign.why == "verdict of another boot"
    assert oct(path.stat().st_mode & 0o777) == "0o644"
    assert json.loads(path.read_text().split("\n")[1])["status"] == "bad"


def test_a_file_that_is_not_a_verdict_is_reported_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "verdict"
    path.write_text("garbage\n")
    said = verdict_file.read(path, boot_id="x", uptime_s=1.0)
    assert (said.status, said.fresh) == (Status.BLIND, False)
    assert said.why.startswith(f"not a verdict file: {path}; a running agent replaces it")
