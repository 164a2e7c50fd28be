"""A node loses power or its network: its neighbours set it DOWN, its job runs again, and it returns."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from testbed.box import Box

from tests.e2e import agents, cluster, plain_jobs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(280)]

REASON = "holdfast:NODE_DEATH: no heartbeat and no answer to TCP for "


def agent_log(box: Box, node: str) -> str:
    return box.path(f"/var/log/holdfast/agent.{node}.log").read_text(errors="replace")


def logs(box: Box) -> str:
    return "\n".join(agent_log(box, node.name)[-2000:] for node in box.nodes)


def wait_until_heard(box: Box, since: dict[str, int]) -> None:
    """Every agent knows its neighbours. Ten heartbeats later their silence means something."""
    cluster.wait_for(
        lambda: all("heartbeats" in agent_log(box, name)[at:] for name, at in since.items()),
        "heartbeats of all nodes",
        60,
        lambda: logs(box),
    )
    time.sleep(6)


def marks(box: Box) -> dict[str, int]:
    return {node.name: len(agent_log(box, node.name)) for node in box.nodes}


def dead(box: Box, node: str) -> bool:
    return "DOWN" in cluster.states(box, node) and cluster.reason(box, node).startswith(REASON)


def slurmd_timeout(box: Box, before_s: int, after_s: int) -> None:
    """slurmctld with another SlurmdTimeout."""
    path = box.path("/etc/slurm/slurm.conf")
    text = path.read_text()
    assert f"SlurmdTimeout={before_s}\n" in text
    box.stop_daemon("slurmctld")
    path.write_text(text.replace(f"SlurmdTimeout={before_s}\n", f"SlurmdTimeout={after_s}\n"))
    box.start_daemon("slurmctld")
    ping = ["scontrol", "ping"]
    cluster.wait_for(lambda: box.run(ping, check=False).returncode == 0, "slurmctld", 60)
    cluster.wait_for(lambda: cluster.all_in_service(box), "all nodes in service", 60)


@pytest.fixture
def acting_box(clean_box: Box) -> Iterator[Box]:
    """Agents that act, and Slurm's default of 300 s: a node that is DOWN earlier is so because of them."""
    slurmd_timeout(clean_box, 10, 300)
    since = marks(clean_box)
    before = agents.configure(
        clean_box, lambda text: text.replace("agent: {", "agent: {node_death: {mode: act}, ", 1)
    )
    wait_until_heard(clean_box, since)
    yield clean_box
    for node in clean_box.nodes:
        clean_box.power_on(node.name)
    agents.configure(clean_box, lambda _text: before)
    slurmd_timeout(clean_box, 300, 10)


def submit(box: Box) -> str:
    job = plain_jobs.submit(box, command="sleep 600")
    cluster.wait_for(lambda: plain_jobs.shown(box, job, "State") == "RUNNING", "the job's start")
    return job


def test_a_power_loss_is_noticed_and_its_job_runs_elsewhere(acting_box: Box) -> None:
    box = acting_box
    job = submit(box)
    victim = plain_jobs.shown(box, job, "NodeList")
    box.power_off(victim)
    cluster.wait_for(lambda: dead(box, victim), "DOWN by a neighbour", 60, lambda: logs(box))
    cluster.wait_for(
        lambda: (
            plain_jobs.shown(box, job, "State") == "RUNNING"
            and plain_jobs.shown(box, job, "NodeList") != victim
        ),
        "the job runs elsewhere, without Slurm's requeue delay of 121 s",
        60,
        lambda: box.run(["scontrol", "show", "job", job]).stdout + logs(box),
    )
    assert plain_jobs.shown(box, job, "RestartCnt") == "1"
    others = [node.name for node in box.nodes if node.name != victim]
    assert all(cluster.in_service(box, name) for name in others), cluster.scene(box)
    since = {victim: len(agent_log(box, victim))}
    box.power_on(victim)
    cluster.wait_for(lambda: cluster.in_service(box, victim), "its return", 60)
    assert "NODE_DEATH" in box.run(["holdfast", "history", victim]).stdout

    # The same node loses its network only: it was DOWN, and is not dead.
    wait_until_heard(box, since)
    box.cut(victim)
    cluster.wait_for(lambda: dead(box, victim), "DOWN again", 60, lambda: logs(box))
    box.join(victim)
    cluster.wait_for(lambda: cluster.in_service(box, victim), "its return", 90, lambda: logs(box))
