"""Markers from launchers, and what a hostile user can do with the sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slurm_hooks.agent.jobs import sockets
from slurm_hooks.agent.jobs.sockets import JobSockets
from slurm_hooks.job import marker as markers
from slurm_hooks.job.agent_socket import AgentLink, deliver
from slurm_hooks.job.marker import Marker
from tests.unit.slurm_hooks.fake_agent_socket import ME, Agent, listening

_socket_of = markers.socket_of
MARKER = Marker(job=7, restarts=0, state="running", at=1.0)


@pytest.fixture
def agent() -> Iterator[Agent]:
    with listening(7) as found:
        yield found


def test_a_launcher_sends_its_marker(agent: Agent) -> None:
    assert agent.while_it_runs(lambda: deliver(agent.run_dir, MARKER)) == ""
    assert agent.kept == [replace(MARKER, owner=ME)]


def test_the_owner_is_the_uid_from_the_kernel(agent: Agent) -> None:
    assert agent.ask(markers.encoded(replace(MARKER, owner=ME + 1))) == markers.TAKEN
    assert agent.kept == [replace(MARKER, owner=ME)]


def test_only_a_users_own_jobs_on_this_node_are_accepted(agent: Agent) -> None:
    assert agent.ask(markers.encoded(replace(MARKER, job=8))).startswith("no: job 8 is not on")
    agent.sockets.serve({ME: frozenset({7, 9}), ME + 1: frozenset({8})})
    assert agent.ask(markers.encoded(replace(MARKER, job=8))).startswith("no: job 8 is not on")
    assert agent.ask(markers.encoded(replace(MARKER, job=9))) == markers.TAKEN
    assert [one.job for one in agent.kept] == [9]


@pytest.mark.parametrize(
    "data", [b"x", b"[]", b"\0" * 4096, b"{" * 5000, b"\xff\xfe", b"x" * 60000]
)
def test_garbage_is_refused(agent: Agent, data: bytes) -> None:
    assert agent.ask(data).startswith("no: ")
    assert agent.kept == []


def test_a_defect_in_the_reader_of_packets_does_not_end_the_agent(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_data: bytes) -> None:
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr("slurm_hooks.agent.jobs.sockets.notices.decoded", fail)
    assert agent.ask(markers.encoded(MARKER)) == "no: int too large to convert to float"


def test_another_user_is_refused_if_the_socket_could_not_be_chowned(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "peer", lambda _: ME + 1)
    assert agent.ask(markers.encoded(MARKER)) == "no: this socket belongs to another user"
    assert agent.kept == []


def test_only_its_user_can_use_the_socket(agent: Agent) -> None:
    found = markers.socket_of(agent.run_dir, ME).stat()
    assert (found.st_uid, found.st_mode & 0o777) == (ME, 0o600)
    assert markers.socket_folder(agent.run_dir).stat().st_mode & 0o022 == 0


def test_a_user_without_a_job_here_has_no_socket(agent: Agent) -> None:
    agent.sockets.serve({})
    assert list(markers.socket_folder(agent.run_dir).iterdir()) == []
    assert "No such file" in deliver(agent.run_dir, MARKER)
    assert list(agent.sockets.fds()) == []


def test_an_earlier_agents_sockets_are_removed(agent: Agent) -> None:
    again = JobSockets(agent.run_dir, lambda _: "")
    assert list(markers.socket_folder(agent.run_dir).iterdir()) == []
    again.serve({ME: frozenset({7})})
    assert markers.socket_of(agent.run_dir, ME).is_socket()
    again.close()


def test_a_flood_is_accepted_at_a_limited_rate_and_does_not_wake_the_agent(agent: Agent) -> None:
    taken = 0
    for tick in range(1000):  # ten seconds
        now = tick / 100
        links = [link for _ in range(10) if (link := agent.connect()) is not None]
        for link in links:
            link.send(markers.encoded(MARKER))
        agent.sockets.turn(now)
        taken = len(agent.kept)
        for link in links:
            link.close()
    assert taken == 32 + 9
    assert list(agent.sockets.fds()) == [], "not polled before its time"
    assert now < agent.sockets.next_at <= now + 0.5


def test_silent_connections_hold_four_places_for_two_seconds(agent: Agent) -> None:
    links = [link for _ in range(10) if (link := agent.connect()) is not None]
    assert len(links) == 10
    agent.sockets.turn(0.0)
    assert len(list(agent.sockets.fds())) == 4, "its clients, and not the next ones"
    agent.sockets.turn(1.9)
    assert len(list(agent.sockets.fds())) == 4
    for now in (2.0, 2.1, 4.1, 4.2, 6.3):
        agent.sockets.turn(now)
    assert len(list(agent.sockets.fds())) == 1, "only the socket itself"
    assert agent.ask(markers.encoded(MARKER), 7.0) == markers.TAKEN
    for link in links:
        link.close()


def test_a_client_that_leaves_at_once_uses_no_resources(agent: Agent) -> None:
    for _ in range(8):
        link = agent.connect()
        assert link is not None
        link.close()
    agent.sockets.turn(0.0)
    assert len(list(agent.sockets.fds())) == 1


def test_a_marker_that_could_not_be_stored_is_refused(agent: Agent) -> None:
    agent.answer = "No space left on device"
    assert agent.ask(markers.encoded(MARKER)) == "no: No space left on device"


def test_the_launcher_reports_once_that_no_agent_listens_and_keeps_trying(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_hooks.job.agent_socket._PAUSES_S", (0.01,))
    agent.sockets.close()
    said = list[str]()
    link = AgentLink(agent.run_dir, warn=said.append)
    assert not link.send(MARKER)
    assert not link.send(replace(MARKER, state="requeue"), for_s=1.0)
    while not said:
        time.sleep(0.01)
    assert str(agent.run_dir) in said[0]
    agent.sockets = JobSockets(agent.run_dir, agent._take)
    agent.sockets.serve({ME: frozenset({7})})

    def heard() -> str:
        while link.last is None:
            time.sleep(0.01)
        return link.last.state

    assert agent.while_it_runs(heard) == "requeue", "the newest"
    # A marker is sent again when the answer to it takes longer than a second.
    assert {marker.state for marker in agent.kept} == {"requeue"}
    assert len(said) == 1


def test_before_it_exits_a_launcher_sends_what_a_busy_agent_has_not_taken(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_hooks.job.agent_socket._PAUSES_S", (0.01,) * 500)
    link = AgentLink(agent.run_dir, warn=lambda _: None)
    link._thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    link._thread.start()
    assert not link.send(MARKER), "the agent does not turn"
    agent.while_it_runs(lambda: link.flush(60.0))
    assert (link.last, agent.kept[-1]) == (MARKER, replace(MARKER, owner=ME))


def test_a_launcher_without_an_agent_exits_at_once(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = list[float]()
    agent.sockets.close()
    link = AgentLink(agent.run_dir, warn=lambda _: None)
    assert not link.send(MARKER)
    monkeypatch.setattr("slurm_hooks.job.agent_socket.time.sleep", slept.append)
    link._thread = None
    link.flush(60.0)
    assert link.last is None


def test_a_launcher_sends_markers_only_to_root(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or itself, as in these tests."""
    monkeypatch.setattr("slurm_hooks.job.agent_socket.os.geteuid", lambda: ME + 1)
    monkeypatch.setattr(
        "slurm_hooks.job.agent_socket.markers.socket_of", lambda *_: _socket_of(agent.run_dir, ME)
    )
    monkeypatch.setattr("slurm_hooks.job.agent_socket._ROOT", ME + 2)
    assert deliver(agent.run_dir, MARKER).endswith("does not belong to root")
    assert agent.kept == []
