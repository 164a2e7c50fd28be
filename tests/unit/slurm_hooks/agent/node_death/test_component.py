"""The component without Slurm; with it: tests/e2e/node/test_node_death.py."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.schema import ClusterConfig, SlurmConfig
from holdfast.policy.node_death import watch
from holdfast.policy.node_death.heartbeat import Death, Heartbeat
from holdfast.policy.ownership import Undrained
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.node_death.component import NodeDeath
from slurm_hooks.agent.node_death.step import Returned, Step, Table
from slurm_hooks.settings.sections import AgentConfig, NodeDeathConfig, NodeDeathMode
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Answer

ME, X, Y = SlurmName("worker-1"), SlurmName("worker-2"), SlurmName("worker-3")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        return int(taken.getsockname()[1])


class Site:
    """A node with a key, without Slurm's commands."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.made: list[NodeDeath] = []
        (folder / "key").write_bytes(b"s" * 64)
        (folder / "key").chmod(0o600)

    def component(self, mode: NodeDeathMode = NodeDeathMode.ACT, key: str = "key") -> NodeDeath:
        death = NodeDeathConfig(mode=mode, port=self.port, key_file=str(self.folder / key))
        settings = Settings(
            path=self.folder / "holdfast.yaml",
            cluster=ClusterConfig(slurm=SlurmConfig(bin=str(self.folder), timeout_s=1)),
            agent=AgentConfig(node_death=death),
        )
        made = NodeDeath(ME, settings, self.note, lambda: True)
        self.made.append(made)
        return made

    def note(self, event: str, **facts: Any) -> None:
        self.notes.append((event, facts))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(watch, "_STALL_S", 60.0)  # this machine may be busy
    made = Site(tmp_path)
    yield made
    for component in made.made:
        component.close()


def turn_until(component: NodeDeath, condition: Any, limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        component.turn(time.monotonic())
        time.sleep(0.01)


def found_dead(component: NodeDeath) -> Death:
    """X has been silent for 2 s until now, as Y says too: what the rounds of the last seconds found."""
    view, now = component._watch, time.monotonic()
    view.know([ME, X, Y])
    found: list[Death] = []
    for tick in range(25):
        at = now - 9.6 + 0.4 * tick
        done = view.round(at)
        found += done.dead
        silent_s = max(0.0, 0.4 * (tick - 18))
        for sender in (X, Y) if not silent_s else (Y,):
            (echo,) = (beat for beat in done.beats if beat.to == sender)
            view.hear(
                Heartbeat(
                    sender=sender,
                    to=ME,
                    run="r",
                    tick=tick,
                    echo_run=echo.run,
                    echo_tick=echo.tick,
                    views={X: silent_s, ME: 0.0},
                ),
                at,
            )
            view.answered(sender, at)
    (death,) = found
    return death


def is_back(component: NodeDeath) -> None:
    component._watch.hear(
        Heartbeat(sender=X, to=ME, run="r", tick=99, echo_run=component._watch._run, echo_tick=24),
        time.monotonic(),
    )


def test_off_is_off(site: Site) -> None:
    component = site.component(NodeDeathMode.OFF)
    component.turn(time.monotonic())
    assert component.next_at == NEVER
    assert component.workers == []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", site.port))  # nobody has it


def test_without_a_key_nothing_is_sent_and_the_log_says_so_once(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    component = site.component(key="missing")
    component.turn(time.monotonic())
    assert component.next_at > time.monotonic() + 30
    component._next = 0.0
    component.turn(time.monotonic())
    assert capsys.readouterr().err.count("dead nodes cannot be detected") == 1


def test_a_taken_port_is_tried_again(site: Site) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", site.port))
        component = site.component()
        component._table_at = NEVER  # a worker would inherit the port for a moment
        component.turn(time.monotonic())
        assert component.next_at > time.monotonic() + 30
    component._next = 0.0
    component.turn(time.monotonic())
    assert component.next_at < time.monotonic() + 1


def test_it_sends_to_its_neighbours_as_often_as_it_should(site: Site) -> None:
    component = site.component()
    component._take_table(Table(names=(ME, X), addresses={X: ("127.0.0.1", 1)}))
    component.turn(time.monotonic())
    assert component.next_at - time.monotonic() <= 0.4
    network = component._network
    assert network is not None
    (data,) = network.receive()  # X has this machine's address here
    assert b'"worker-1","worker-2"' in data


@pytest.mark.parametrize("switch", ["all", "node_death"])
def test_a_kill_switch_stops_it(site: Site, switch: str) -> None:
    (site.folder / "off").mkdir()
    (site.folder / "off" / switch).touch()
    component = site.component()
    component._table_at = NEVER
    component._deaths.append(found_dead(component))
    component.turn(time.monotonic())
    assert component._deaths == []
    assert component.workers == []


def test_without_slurm_a_death_is_logged_and_tried_again(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    component = site.component()
    component._table_at = NEVER
    component._deaths.append(found_dead(component))
    text = ""

    def failed() -> bool:
        nonlocal text
        text += capsys.readouterr().err
        return "node not set DOWN" in text

    turn_until(component, failed)
    assert site.notes == []


def test_a_node_that_is_back_while_its_death_waits_for_another_request_is_not_set_down(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    component = site.component()
    turn_until(component, lambda: component.workers)  # the table, which nobody answers
    component._deaths.append(found_dead(component))
    is_back(component)
    turn_until(component, lambda: not component._deaths and not component.workers)
    assert "not set DOWN" not in capsys.readouterr().err


def test_a_node_that_is_still_silent_is_set_down_after_another_request(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    component = site.component()
    turn_until(component, lambda: component.workers)
    component._deaths.append(found_dead(component))

    def is_over() -> bool:
        component._watch.answered(Y, time.monotonic())  # only X is silent
        return not component._deaths and not component.workers

    turn_until(component, is_over)
    assert "node=worker-2" in capsys.readouterr().err


def test_without_slurm_this_node_looks_again_whether_it_may_return(site: Site) -> None:
    component = site.component()
    component._table_at = NEVER
    component._returns = [0.0]
    turn_until(component, lambda: component.workers)
    turn_until(component, lambda: not component.workers)
    assert component._returns


def test_after_a_return_accounting_is_asked_until_it_shows_what_the_return_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = site.folder / "asked"

    def check(_step: Step, _undrained: Undrained) -> str:
        """In a process of its own."""
        if asked.exists():
            return "drained again"
        asked.touch()
        return ""

    monkeypatch.setattr(Step, "check_return", check)
    monkeypatch.setattr("slurm_hooks.agent.node_death.component._CHECK_S", (0.0, 0.1, 0.2, 3600.0))
    component = site.component()
    component._table_at = NEVER
    component._returns = []
    at = datetime(2026, 11, 22, tzinfo=timezone.utc)
    undrained = Undrained(reason="r", since=at, looked_at=at, until=at)
    now = time.monotonic()
    component._asked = ("return", None)
    component._take(Answer(items=(Returned(reason="r", undrained=undrained),)), now)
    text = capsys.readouterr().err
    assert "it is not dead" in text

    def is_over() -> bool:
        nonlocal text
        text += capsys.readouterr().err
        return not component._checks

    turn_until(component, is_over)
    assert text.count("drained again") == 1


def test_a_kill_switch_only_delays_the_return(site: Site) -> None:
    switch = site.folder / "off" / "all"
    switch.parent.mkdir()
    switch.touch()
    component = site.component()
    component._table_at = NEVER
    component._returns = [0.0]
    component.turn(time.monotonic())
    assert component.workers == []
    switch.unlink()
    assert len(component._returns) == 1
    component._returns = [0.0]  # its time has come
    turn_until(component, lambda: component.workers)
