"""The hooks' slow path: what an unknown node gets, and that our own faults never drain one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.vocabulary import Context, Status
from slurm_hooks import gate, machine, verdict_file
from slurm_hooks.agent import record as records
from slurm_hooks.guard import guarded
from tests.unit.slurm_hooks.test_slurm_step import ME, FakeSlurm

ROOT = Path(__file__).parents[3]


class Site:
    """A configuration, a node's folders and a Slurm."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.slurm = folder, FakeSlurm()
        self.slurm.add("worker-0", ME, "worker-2")
        (folder / "run").mkdir()

    def configure(self, text: str) -> None:
        paths = f"paths: {{run: {self.folder}/run, state: {self.folder}/state}}\n"
        (self.folder / "holdfast.yaml").write_text(paths + text)

    def publish(self, status: Status, **detail: object) -> None:
        text = verdict_file.render(
            status,
            expires_s=int(machine.uptime_s()) + 60,
            boot_id=machine.boot_id(),
            detail=dict(detail),
        )
        verdict_file.write(self.folder / "run" / "verdict", text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "holdfast.yaml"))
    monkeypatch.setenv("SLURMD_NODENAME", ME)
    monkeypatch.setattr(gate, "SlurmCli", lambda *_: made.slurm)
    made.configure("")
    return made


HOLD = "node: {when_blind: {prolog: hold, epilog: hold}}\n"


@pytest.mark.parametrize("context", [Context.PROLOG, Context.EPILOG])
def test_blind_passes_by_default_and_says_so(
    site: Site, capsys: pytest.CaptureFixture[str], context: Context
) -> None:
    assert gate.answer(context) == 0
    assert "there is no verdict" in capsys.readouterr().err
    assert site.slurm.writes == []


@pytest.mark.parametrize("context", [Context.PROLOG, Context.EPILOG])
def test_where_the_site_says_hold_the_drain_is_ours(site: Site, context: Context) -> None:
    site.configure(HOLD)
    assert gate.answer(context) == 10
    reason = site.slurm.mine.reason
    assert reason.startswith(f"holdfast:{context.value.upper()}: blind: there is no verdict")
    drained, problem = records.load(records.path_in(site.folder / "state"))
    assert problem == ""
    assert drained is not None
    assert drained.record.reason == reason


def test_holding_stops_at_the_budget(site: Site) -> None:
    site.configure("node: {when_blind: {prolog: hold}, budget: {max_nodes: 0, max_share: 0}}\n")
    assert gate.answer(Context.PROLOG) == 0
    assert site.slurm.writes == []


def test_holding_without_slurm_leaves_the_node(site: Site) -> None:
    site.configure(HOLD)
    site.slurm.down = True
    assert gate.answer(Context.PROLOG) == 0


def test_a_human_drained_already(site: Site) -> None:
    site.configure(HOLD)
    site.slurm.drain([ME], "swapping DIMM", "alice")
    assert gate.answer(Context.PROLOG) == 10
    assert site.slurm.mine.reason == "swapping DIMM"


def test_a_fresh_verdict_that_came_meanwhile(site: Site) -> None:
    site.configure(HOLD)
    for status, code in ((Status.OK, 0), (Status.SUSPECT, 0), (Status.BAD, 10)):
        site.publish(status)
        assert gate.answer(Context.PROLOG) == code


def test_the_epilog_drains_only_where_no_agent_does(site: Site) -> None:
    finding = {"code": "XID79", "detail": "GPU 3 fell off"}
    site.publish(Status.BAD, drained=False, findings=[finding])
    assert gate.answer(Context.EPILOG) == 10
    assert site.slurm.mine.reason.startswith("holdfast:EPILOG: XID79: GPU 3 fell off")
    site.publish(Status.BAD, drained=True)
    assert gate.answer(Context.EPILOG) == 0


def test_the_kill_switch_opens_every_gate(site: Site) -> None:
    site.configure(HOLD)
    (site.folder / "off").mkdir()
    (site.folder / "off" / "all").touch()
    assert gate.answer(Context.PROLOG) == 0


def test_our_faults_leave_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(error: Exception) -> int:
        def hook() -> int:
            raise error

        return guarded("prolog", hook)

    assert broken(ConfigError("/etc/x.yaml:3: node.mont: unknown key")) == 0
    assert broken(KeyError("x")) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("holdfast-prolog: /etc/x.yaml:3: node.mont: unknown key")
    assert len(said) == 2


@pytest.mark.parametrize("module", ["prolog", "epilog"])
def test_a_broken_configuration_is_one_line_and_the_node_stays(site: Site, module: str) -> None:
    site.configure("node: {expected_gpu: 8}\n")
    argv = [sys.executable, "-m", f"slurm_hooks.{module}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "holdfast.yaml:2: node.expected_gpu: unknown key; did you mean 'expected_gpus'?" in line


def test_hooks_start_light() -> None:
    code = "import slurm_hooks.prolog, slurm_hooks.gate, sys; print(*sys.modules)"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"kubernetes", "pynvml", "yaml", "jinja2", "asyncio", "ctypes"} & loaded
    assert not {name for name in loaded if name.startswith("slurm_hooks.checks")}
