"""The hooks' slow path: a node without a verdict, and that internal errors never drain a node."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from holdfast.config.path import config_path
from holdfast.config.schema import load_cluster
from holdfast.errors import ConfigError
from holdfast.policy.ownership import is_own_drain
from holdfast.records import verdict_file
from holdfast.slurm.cli import SlurmCli
from holdfast.vocabulary import Context, SlurmName, Status
from slurm_hooks.agent import lock
from slurm_hooks.agent.drain import record as records
from slurm_hooks.agent.drain.record import confirmed
from slurm_hooks.hooks import decision
from slurm_hooks.hooks.internal_errors import guarded
from slurm_hooks.node import machine
from slurm_hooks.settings import last_good
from slurm_hooks.settings.sections import NodeConfig
from tests.unit.slurm_hooks.agent.drain.fake_slurm import ME, FakeSlurm

ROOT = Path(__file__).parents[4]


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
    monkeypatch.setattr(decision, "SlurmCli", lambda *_: made.slurm)
    made.configure("")
    return made


DRAIN_WHEN_BLIND = "node: {when_blind: {prolog: drain, epilog: drain}}\n"


@pytest.mark.parametrize("context", [Context.PROLOG, Context.EPILOG])
def test_a_blind_node_passes_by_default_with_a_message(
    site: Site, capsys: pytest.CaptureFixture[str], context: Context
) -> None:
    assert decision.answer(context) == 0
    assert "there is no verdict" in capsys.readouterr().err
    assert site.slurm.writes == []


@pytest.mark.parametrize("context", [Context.PROLOG, Context.EPILOG])
def test_with_the_policy_hold_the_hook_drains(site: Site, context: Context) -> None:
    site.configure(DRAIN_WHEN_BLIND)
    assert decision.answer(context) == 10
    reason = site.slurm.mine.reason
    assert reason.startswith(f"holdfast:{context.value.upper()}: blind: there is no verdict")
    drained, problem = records.load(records.path_in(site.folder / "state"))
    assert problem == ""
    assert drained is not None
    assert drained.record.reason == reason
    assert reason.endswith(f" boot={machine.boot_id()[:8]}"), "as the agent writes it"


def test_the_reason_names_the_probes_without_an_answer(site: Site) -> None:
    site.configure(DRAIN_WHEN_BLIND)
    site.publish(Status.BLIND, blind=["nvml", "mounts"])
    assert decision.answer(Context.PROLOG) == 10
    assert "blind: silent probes: nvml, mounts" in site.slurm.mine.reason


def test_another_nodes_drain_is_not_taken_for_ones_own(site: Site) -> None:
    """Its name sorts after this node's and comes first in Slurm's answer."""
    site.configure(DRAIN_WHEN_BLIND)
    site.slurm.drain([SlurmName("worker-2")], "swapping DIMM", "admin")
    site.slurm.table = dict(reversed(site.slurm.table.items()))
    assert decision.answer(Context.PROLOG) == 10
    assert site.slurm.mine.drained_flag


@pytest.mark.parametrize("ahead_h", [-1, 0, 1])
def test_the_agent_knows_a_hooks_drain_whatever_the_nodes_clock(site: Site, ahead_h: int) -> None:
    site.configure(DRAIN_WHEN_BLIND)
    site.slurm.now += timedelta(hours=ahead_h)
    assert decision.answer(Context.PROLOG) == 10
    drained, _ = records.load(records.path_in(site.folder / "state"))
    assert drained is not None
    assert is_own_drain(drained.record, site.slurm.mine)


def test_the_policy_hold_respects_the_budget(site: Site) -> None:
    site.configure("node: {when_blind: {prolog: drain}, budget: {max_nodes: 0, max_share: 0}}\n")
    assert decision.answer(Context.PROLOG) == 0
    assert site.slurm.writes == []


def test_without_slurm_the_node_stays_in_service(site: Site) -> None:
    site.configure(DRAIN_WHEN_BLIND)
    site.slurm.down = True
    assert decision.answer(Context.PROLOG) == 0


def test_a_person_has_already_drained_the_node(site: Site) -> None:
    site.configure(DRAIN_WHEN_BLIND)
    site.slurm.drain([ME], "swapping DIMM", "alice")
    assert decision.answer(Context.PROLOG) == 10
    assert site.slurm.mine.reason == "swapping DIMM"


def test_a_fresh_verdict_that_came_meanwhile(site: Site) -> None:
    site.configure(DRAIN_WHEN_BLIND)
    for status, code in ((Status.OK, 0), (Status.SUSPECT, 0)):
        site.publish(status)
        assert decision.answer(Context.PROLOG) == code


FATAL = {"code": "XID79", "detail": "GPU 3 fell off"}


@pytest.fixture
def agent(site: Site) -> Iterator[None]:
    """A running agent, according to its lock."""
    held = lock.take(lock.path_in(site.folder / "run"))
    assert held is not None
    yield
    os.close(held.fd)


@contextmanager
def soon(what: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(0.3, what)
    timer.start()
    yield
    timer.join()


@pytest.mark.usefixtures("agent")
def test_a_prolog_waits_until_the_drain_is_admitted(site: Site) -> None:
    def drained() -> None:
        site.slurm.drain([ME], "holdfast:XID79: GPU 3 fell off boot=x")
        site.publish(Status.BAD, drained=True, findings=[FATAL])

    site.publish(Status.BAD, drained=False, findings=[FATAL])
    with soon(drained):
        assert decision.answer(Context.PROLOG) == 10
    assert site.slurm.writes == [f"drain {ME}"], "the agent's own"


@pytest.mark.usefixtures("agent")
def test_a_prolog_refuses_no_node_over_the_budget(site: Site) -> None:
    site.publish(Status.BAD, drained=False, findings=[FATAL])
    with soon(lambda: site.publish(Status.SUSPECT, findings=[FATAL])):
        assert decision.answer(Context.PROLOG) == 0
    assert site.slurm.writes == []


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(("room", "code"), [(1, 10), (0, 0)])
def test_an_agent_that_cannot_decide_in_time_is_not_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch, room: int, code: int
) -> None:
    monkeypatch.setattr(decision, "_DECISION_WAIT_S", 0.1)
    site.configure(f"node: {{budget: {{max_nodes: {room}, max_share: 0}}}}\n")
    site.publish(Status.BAD, drained=False, findings=[FATAL])
    assert decision.answer(Context.PROLOG) == code
    assert site.slurm.mine.drained_flag is bool(room)


def test_a_prolog_without_an_agent_does_not_wait(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "_DECISION_WAIT_S", 60.0)
    site.publish(Status.BAD, drained=False, findings=[FATAL])
    assert decision.answer(Context.PROLOG) == 10
    assert site.slurm.mine.reason.startswith("holdfast:PROLOG: XID79: GPU 3 fell off")


class Clock:
    """The clock of the hook; each action happens at its time."""

    def __init__(self) -> None:
        self.now, self.sleeps = 0.0, 0
        self.actions: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1
        due = [action for at, action in self.actions if at <= self.now]
        self.actions = [entry for entry in self.actions if entry[0] > self.now]
        for action in due:
            action()


@pytest.fixture
def clock(site: Site, agent: None, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A node with a fatal fault, whose agent has not decided yet, 1000 s after the boot."""
    made = Clock()
    made.now = 1000.0
    monkeypatch.setattr(decision, "time", made)
    site.publish(Status.BAD, drained=False, findings=[FATAL])
    return made


@pytest.mark.parametrize(
    ("after_s", "waits"),
    [(0.01, True), (3.9, True), (4.2, False)],
    ids=["soon", "late", "too late"],
)
def test_a_prolog_waits_four_seconds_for_the_agents_drain(
    site: Site, clock: Clock, after_s: float, waits: bool
) -> None:
    def drained() -> None:
        site.slurm.drain([ME], "holdfast:XID79: GPU 3 fell off boot=x")
        site.publish(Status.BAD, drained=True, findings=[FATAL])

    begin = clock.now
    clock.actions = [(begin + after_s, drained)]
    assert decision.answer(Context.PROLOG) == 10
    assert clock.now - begin <= min(after_s, 4.0) + 0.03, "it looks often"
    assert site.slurm.mine.reason.startswith("holdfast:XID79" if waits else "holdfast:PROLOG")


def test_a_prolog_stops_waiting_when_the_node_is_no_longer_bad(site: Site, clock: Clock) -> None:
    clock.actions = [(clock.now + 1.0, lambda: site.publish(Status.SUSPECT, findings=[FATAL]))]
    begin = clock.now
    assert decision.answer(Context.PROLOG) == 0
    assert clock.now - begin < 1.1


def test_without_any_time_to_wait_the_prolog_decides_at_once(
    site: Site, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "_DECISION_WAIT_S", 0.0)
    assert decision.answer(Context.PROLOG) == 10
    assert clock.sleeps == 0
    assert site.slurm.mine.reason.startswith("holdfast:PROLOG")


@pytest.mark.parametrize(("configured", "used"), [("1", 1.0), ("3", 3.0), ("30", 3.0)])
def test_a_hook_gives_slurm_three_seconds_at_most(
    site: Site, monkeypatch: pytest.MonkeyPatch, configured: str, used: float
) -> None:
    asked: list[object] = []

    def cli(timeout_s: float, _bin: object) -> FakeSlurm:
        asked.append(timeout_s)
        return site.slurm

    monkeypatch.setattr(decision, "SlurmCli", cli)
    site.configure(f"{DRAIN_WHEN_BLIND}slurm: {{timeout_s: {configured}}}\n")
    assert decision.answer(Context.PROLOG) == 10
    assert asked == [used]


def test_the_reason_names_the_first_of_several_findings(site: Site) -> None:
    """The agent lists the worst finding first."""
    site.publish(Status.BAD, drained=False, findings=[FATAL, {"code": "IB_FLAP", "detail": "x"}])
    assert decision.answer(Context.PROLOG) == 10
    assert site.slurm.mine.reason.startswith("holdfast:PROLOG: XID79: GPU 3 fell off")


def test_an_outdated_verdict_of_a_drained_node_refuses_nothing(site: Site) -> None:
    """A person has resumed the node, but the agent has not noticed it yet."""
    site.publish(Status.BAD, drained=True, findings=[FATAL])
    path = records.path_in(site.folder / "state")
    decision._drain(  # the record that an agent's drain leaves
        cast("SlurmCli", site.slurm), ME, "XID79", "x", load_cluster(config_path()), NodeConfig()
    )
    drained, _ = records.load(path)
    assert drained is not None
    records.Records(load_cluster(config_path()).paths).save(confirmed(drained, site.slurm.mine))
    site.slurm.undrain([ME])
    assert decision.answer(Context.PROLOG) == 0
    assert not site.slurm.mine.drained_flag


def test_a_prolog_after_slurmctld_lost_the_drain_sets_it_again(site: Site) -> None:
    site.publish(Status.BAD, drained=True, findings=[FATAL])
    cluster = load_cluster(config_path())
    kept_records = records.Records(cluster.paths)
    decision._drain(cast("SlurmCli", site.slurm), ME, "XID79", "x", cluster, NodeConfig())
    drained, _ = kept_records.load()
    assert drained is not None
    kept_records.save(confirmed(drained, site.slurm.mine))
    reason = site.slurm.mine.reason
    site.slurm.restart(lose=True)
    assert decision.answer(Context.PROLOG) == 10
    assert site.slurm.mine.drained_flag
    assert site.slurm.mine.reason == reason
    kept, _ = kept_records.load()
    assert kept is not None
    assert (kept.record.reason, kept.record.action) == (reason, drained.record.action)


def test_a_drain_that_is_about_to_be_withdrawn_refuses_nothing(site: Site) -> None:
    site.configure("node: {budget: {max_nodes: 1, max_share: 0}}\n")
    site.slurm.drain([SlurmName("worker-0")], "holdfast:XID79: came first boot=x")
    site.slurm.drain([ME], "holdfast:XID79: GPU 3 fell off boot=x")
    site.publish(Status.BAD, drained=True, findings=[FATAL])
    assert decision.answer(Context.PROLOG) == 0


def test_of_hooks_that_drain_at_once_those_over_the_budget_withdraw(site: Site) -> None:
    site.configure("node: {budget: {max_nodes: 1, max_share: 0}}\n")
    site.publish(Status.BAD, drained=False, findings=[FATAL])
    site.slurm.before_drain = ["worker-0"]
    assert decision.answer(Context.PROLOG) == 0
    assert not site.slurm.mine.drained_flag
    assert not records.path_in(site.folder / "state").exists()


def test_the_epilog_drains_only_if_no_agent_does(site: Site) -> None:
    finding = {"code": "XID79", "detail": "GPU 3 fell off"}
    site.publish(Status.BAD, drained=False, findings=[finding])
    assert decision.answer(Context.EPILOG) == 10
    assert site.slurm.mine.reason.startswith("holdfast:EPILOG: XID79: GPU 3 fell off")
    site.publish(Status.BAD, drained=True)
    assert decision.answer(Context.EPILOG) == 0


def test_the_kill_switch_lets_every_job_start(site: Site) -> None:
    site.configure(DRAIN_WHEN_BLIND)
    (site.folder / "off").mkdir()
    (site.folder / "off" / "all").touch()
    assert decision.answer(Context.PROLOG) == 0


def test_internal_errors_leave_the_node_in_service(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_an_invalid_configuration_is_one_line_and_the_node_stays_in_service(
    site: Site, module: str
) -> None:
    site.configure("node: {expected_gpu: 8}\n")
    argv = [sys.executable, "-m", f"slurm_hooks.hooks.{module}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "holdfast.yaml:2: node.expected_gpu: unknown key; did you mean 'expected_gpus'?" in line


def test_a_hook_uses_the_accepted_copy_while_any_section_is_invalid(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hook's own section is valid, but the agent did not accept the file."""
    last_good.keep(config_path(), config_path().read_text())
    site.configure(DRAIN_WHEN_BLIND + "checks: {gpu_xidd: {}}\n")
    assert decision.answer(Context.PROLOG) == 0, (
        "when_blind was allow, and nobody has accepted drain"
    )
    said = capsys.readouterr().err
    assert "unknown key; did you mean 'gpu_xid'?; the previous configuration stays in use" in said
    assert site.slurm.writes == []
    site.configure(DRAIN_WHEN_BLIND)
    assert decision.answer(Context.PROLOG) == 10


def test_hooks_import_few_modules() -> None:
    code = "import slurm_hooks.hooks.prolog, slurm_hooks.hooks.decision, sys; print(*sys.modules)"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"kubernetes", "pynvml", "yaml", "jinja2", "asyncio", "ctypes"} & loaded
    assert not {name for name in loaded if name.startswith("slurm_hooks.checks")}
