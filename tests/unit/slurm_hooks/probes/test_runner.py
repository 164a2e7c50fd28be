"""The prober with small probes: each field of a row has its effect. No real device is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.config.schema import PathsConfig, SlurmConfig
from slurm_hooks import checks
from slurm_hooks.checks import CATALOGUE
from slurm_hooks.evaluation.observer import Observer, blind_names
from slurm_hooks.facts import HostFacts, MountState, NodeFacts
from slurm_hooks.probes import catalogue, runner
from slurm_hooks.probes.catalogue import BY_NAME, PROBES
from slurm_hooks.probes.probe import Probe, Sources, silence
from slurm_hooks.probes.runner import Prober, Readings
from slurm_hooks.settings import settings
from slurm_hooks.settings.sections import AgentConfig, NodeConfig
from slurm_hooks.tracking.node import TrackedState
from slurm_hooks.worker.child import Serve
from slurm_hooks.worker.worker import Answer


def answers(*items: object) -> Callable[[Sources], Serve]:
    def open_(_sources: Sources) -> Serve:
        def serve(_request: object) -> Iterator[object]:
            yield from items

        return serve

    return open_


def sleeps(_sources: Sources) -> Serve:
    def serve(_request: object) -> Iterator[object]:
        time.sleep(30)
        yield "too late"

    return serve


def fails(_sources: Sources) -> Serve:
    def serve(_request: object) -> Iterator[object]:
        raise OSError(5, "Input/output error")
        yield

    return serve


def slow(_agent: AgentConfig) -> float:
    return 60.0


Make = Callable[..., Prober]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    made: list[Prober] = []

    def build(*probes: Probe, deadline_s: float = 0.4) -> Prober:
        monkeypatch.setattr(runner, "PROBES", probes)
        monkeypatch.setattr(runner, "BY_NAME", {probe.name: probe for probe in probes})
        paths = PathsConfig(run=tmp_path / "run", state=tmp_path / "state")
        agent = AgentConfig(probe_deadline_s=deadline_s)
        made.append(Prober(NodeConfig(), agent, paths, SlurmConfig()))
        return made[-1]

    yield build
    for one in made:
        one.close()


def one_pass(of: Prober, wanted: set[str], now: float) -> Readings:
    of.start(wanted, now)
    until = time.monotonic() + 20
    while (readings := of.collect()) is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    return readings


def test_facts_are_stored_in_the_field_of_the_row(make: Make) -> None:
    of = make(
        Probe(name="a", open_=answers(7), facts="host"),
        Probe(name="b", open_=answers(8), facts="x"),
    )
    readings = of.run({"a"})
    assert readings.facts == {"host": 7}
    assert (readings.looked, readings.asked) == ({"a"}, {"a"})


def test_nothing_to_read_is_no_evidence(make: Make) -> None:
    of = make(
        Probe(name="none", open_=answers(None), facts="a"),
        Probe(name="empty", open_=answers(), facts="b"),
    )
    readings = of.run({"none", "empty"})
    assert (readings.facts, readings.looked, readings.blind) == ({}, set(), [])
    assert readings.asked == {"none", "empty"}


def test_a_probe_that_hangs_delays_no_other(make: Make) -> None:
    of = make(
        Probe(name="hung", open_=sleeps, facts="a"),
        Probe(name="broken", open_=fails, facts="b"),
        Probe(name="healthy", open_=answers("yes"), facts="c"),
    )
    readings = of.run({"hung", "broken", "healthy"})
    assert readings.facts == {"c": "yes"}
    assert {blind.probe: blind.hung for blind in readings.blind} == {"hung": True, "broken": False}


def test_a_slow_probe_runs_at_its_own_interval(make: Make) -> None:
    of = make(
        Probe(name="slow", open_=answers(1), facts="a", every_s=slow),
        Probe(name="quick", open_=answers(2), facts="b"),
    )
    asked = [one_pass(of, {"slow", "quick"}, now).asked for now in (0.0, 10.0, 59.0, 60.0, 70.0)]
    both, quick = {"slow", "quick"}, {"quick"}
    assert asked == [both, quick, quick, both, quick]


def test_a_worker_of_every_pass_is_kept_and_one_of_few_passes_is_not() -> None:
    assert Probe(name="a", open_=answers(), facts="a").keep
    assert not Probe(name="a", open_=answers(), facts="a", every_s=slow).keep


def test_no_pass_waits_for_a_background_probe(make: Make) -> None:
    of = make(
        Probe(name="late", open_=sleeps, facts="a", background=True, every_s=slow),
        Probe(name="healthy", open_=answers(2), facts="b"),
        deadline_s=3.0,
    )
    first = one_pass(of, {"late", "healthy"}, 0.0)
    assert first.facts == {"b": 2}
    assert not first.blind, "its deadline was not waited for"
    time.sleep(3.1)
    readings = one_pass(of, {"late", "healthy"}, 10.0)
    assert [blind.probe for blind in readings.blind] == ["late"], "and counts when it is found"


def test_a_background_answer_counts_in_the_pass_during_which_it_arrives(make: Make) -> None:
    of = make(
        Probe(name="aside", open_=answers(1), facts="a", background=True, every_s=slow),
        Probe(name="healthy", open_=answers(2), facts="b"),
    )
    first = one_pass(of, {"aside", "healthy"}, 0.0)
    time.sleep(0.5)
    second = one_pass(of, {"aside", "healthy"}, 10.0)
    assert {**first.facts, **second.facts} == {"a": 1, "b": 2}
    assert ("aside" in first.asked) != ("aside" in second.asked)


def test_a_probe_that_hangs_triggers_another(make: Make) -> None:
    of = make(
        Probe(name="driver", open_=sleeps, facts="a", also_triggers="tasks"),
        Probe(name="tasks", open_=answers(3), facts="b", every_s=slow),
    )
    one_pass(of, {"tasks"}, 0.0)
    assert one_pass(of, {"tasks"}, 5.0).asked == set()
    one_pass(of, {"driver"}, 10.0)
    assert "tasks" in one_pass(of, {"tasks"}, 15.0).asked


def test_a_mount_that_hangs_is_a_fact() -> None:
    hung = Answer(error="no answer", hung=True, evidence="state D, wchan fuse_lock_inode")
    (facts, blind) = catalogue._each_mount(BY_NAME["mounts"], {"/a": hung})
    assert [(mount.path, mount.state) for mount in facts] == [("/a", MountState.HUNG)]
    assert "fuse_lock_inode" in facts[0].detail
    assert blind is None


# --- an answer counts until the probe runs again --------------------------------------------------


def see(observer: Observer, **readings: object) -> NodeFacts:
    observer.read_probes(Readings(**readings), log_problem="", uptime_s=5.0)  # type: ignore[arg-type]
    return observer.facts


def test_the_facts_of_a_slow_probe_or_their_lack_count_until_it_runs_again() -> None:
    observer = Observer(8, "boot", TrackedState())
    wanted, host = frozenset({"host", "dcgm"}), HostFacts(cpus=4)
    dumb = silence("dcgm", Answer(error="no watches"))
    facts = see(observer, wanted=wanted, asked={"host", "dcgm"}, facts={"host": host}, blind=[dumb])
    assert facts.host is not None
    for _ in range(3):
        facts = see(observer, wanted=wanted)
    assert facts.host is not None, "it was not asked since"
    assert [(blind.probe, blind.passes) for blind in facts.blind] == [("dcgm", 1)]
    facts = see(observer, wanted=wanted, asked={"host", "dcgm"}, blind=[dumb])
    assert facts.host is None, "asked, and there was nothing"
    assert facts.blind[0].passes == 2
    facts = see(observer, wanted=frozenset())
    assert facts.blind == (), "no check needs it any more"


def test_only_vital_probes_make_the_verdict_blind() -> None:
    silent = tuple(silence(name, Answer(error="x")) for name in ("dcgm", "slurmd", "clock", "host"))
    facts = NodeFacts(expected_gpus=8, blind=silent)
    assert blind_names(facts, {"host": object()}) == ("host",)


def test_a_driver_that_does_not_open_is_a_fact_and_its_gpus_are_unknown(tmp_path: Path) -> None:
    """No library on a node that should have GPUs: nothing was looked at, so nothing is well."""
    paths = PathsConfig(state=tmp_path, nvml_library=f"{tmp_path}/no-such-library.so")
    of = Prober(NodeConfig(), AgentConfig(probe_deadline_s=15.0), paths, SlurmConfig())
    readings = of.run({"nvml"})
    of.close()
    assert readings.looked == set()
    facts = see(
        Observer(8, "boot", TrackedState()), **{f: getattr(readings, f) for f in _OF_READINGS}
    )
    assert facts.nvml is not None
    assert facts.nvml.init_code == 12
    assert blind_names(facts, {"gpu_count": object()}) == ("nvml",)


_OF_READINGS = ("wanted", "asked", "facts", "looked", "blind")


# --- the tables fit together -----------------------------------------------------------------------


def test_every_row_has_a_name_of_its_own_and_a_field_of_the_facts() -> None:
    assert len(BY_NAME) == len(PROBES)
    fields = NodeFacts.__dataclass_fields__
    assert {probe.facts for probe in PROBES} <= set(fields)
    assert {probe.also_triggers for probe in PROBES} - {""} <= set(BY_NAME)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_check_depends_on_a_probe_that_exists(name: str) -> None:
    check = checks.load(name)
    assert check.probe in {*BY_NAME, "kmsg", ""}
    assert check.also <= {*BY_NAME, "kmsg"}


def test_probes_that_may_take_longer_than_a_pass_run_in_the_background() -> None:
    for probe in PROBES:
        sources = Sources(
            node=NodeConfig(), agent=AgentConfig(), paths=PathsConfig(), slurm=SlurmConfig()
        )
        if probe.deadline_s(sources) > AgentConfig().probe_deadline_s:
            assert probe.background, probe.name


def test_after_two_missed_deadlines_no_pass_waits_for_the_probe(make: Make) -> None:
    of = make(
        Probe(name="hung", open_=sleeps, facts="a"),
        Probe(name="healthy", open_=answers(2), facts="b"),
    )
    times, blind = [], []
    for turn in range(6):
        began = time.monotonic()
        readings = one_pass(of, {"hung", "healthy"}, turn * 10.0)
        times.append(time.monotonic() - began)
        blind.append([one.probe for one in readings.blind])
        assert readings.facts == {"b": 2}
        time.sleep(0.5)  # a pass begins at most every interval_s, which is longer than the deadline
    assert min(times[:2]) >= 0.4, "two passes wait for it"
    assert max(times[2:]) < 0.4, "and then none"
    assert blind[:2] == [["hung"], ["hung"]]
    assert blind[2:].count(["hung"]) >= 1, "it is still reported as blind"


def test_one_check_alone_runs_every_probe_that_it_reads(tmp_path: Path) -> None:
    config = settings.load(tmp_path / "none.yaml")
    table = config.checks
    assert config.probes({"driver_hung": table["driver_hung"]}) == {"nvml", "system"}
    assert config.probes({"gpu_count": table["gpu_count"]}) == {"nvml", "pcie"}
    assert config.probes({"probe_blind": table["probe_blind"]}) == set()
