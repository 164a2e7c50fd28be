"""The agent as a daemon: its resource use, its files, its history and metrics."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.history import store
from slurm_hooks.agent import lock, memory
from tests.component.test_agent_process import ROOT, XID79, Node, is_ok, wait
from tests.unit.slurm_hooks.conftest import SimulatedNvml

_TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def node(tmp_path: Path, nvml: SimulatedNvml) -> Iterator[Node]:
    made = Node(tmp_path, nvml)
    yield made
    made.stop()


def events(node: Node) -> list[str]:
    """Without what this machine itself is like: its load, its clock."""
    found = store.read(node.state / "history").events
    return [e.event for e in found if e.code.startswith("XID") or not e.code]


def family(pid: int) -> list[int]:
    """The agent and its workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def cpu_s(pid: int) -> float:
    """CPU time of the agent, its workers that ended, and those that live."""
    total = 0
    for one in family(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15] if one == pid else fields[11:13]))
    return total / _TICKS


def pss_mib(pid: int) -> float:
    """Memory of them all, shared pages counted once."""
    total = 0
    for one in family(pid):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def metric(node: Node, name: str) -> float:
    """From the agent's own metrics; 0 where there are none yet."""
    try:
        text = (node.run / "metrics.prom").read_text()
    except FileNotFoundError:
        return 0.0
    for found in text_string_to_metric_families(text):
        if found.name == name:
            return float(found.samples[0].value)
    return 0.0


def passes(node: Node) -> int:
    return int(metric(node, "holdfast_agent_passes"))


def test_it_stays_within_its_resource_limits(node: Node) -> None:
    """60 MiB and 1 % of a core at the default interval of 10 s, that is 100 ms for each pass, its
    workers and everything between the passes included.
    """
    agent = node.start()
    wait(lambda: passes(node) >= 5, 60)
    before, spent = passes(node), cpu_s(agent.pid)
    wait(lambda: passes(node) >= before + 20, 120)
    each_s = (cpu_s(agent.pid) - spent) / (passes(node) - before)
    assert each_s <= 0.1
    assert pss_mib(agent.pid) <= 60


_COUNTS = """
import runpy, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys._debugmallocstats())
runpy.run_module("slurm_hooks.agent", run_name="__main__", alter_sys=True)
"""


def test_its_lists_of_freed_objects_are_emptied(node: Node) -> None:
    """Else they grow with each pass, to 4 MB after a day."""
    with (node.state.parent / "stderr").open("w+") as said:
        argv = [sys.executable, "-c", _COUNTS, "--node", "w", "--config", str(node.config)]
        env = {**os.environ, "NVMLSIM_STATE": str(node.nvml.state)}
        agent = subprocess.Popen(argv, cwd=ROOT, env=env, stderr=said)
        node.agents.append(agent)

        def freed(at_pass: int) -> int:
            """How many tuples Python keeps for later."""
            wait(lambda: passes(node) >= at_pass)
            begin = said.seek(0, os.SEEK_END)
            os.kill(agent.pid, signal.SIGUSR1)

            def counts() -> list[str]:
                said.seek(begin)
                return re.findall(r"(\d+) free \d+-sized PyTuple", said.read())

            wait(lambda: len(counts()) == 20)
            return sum(map(int, counts()))

        found = [freed(at_pass) for at_pass in range(5, 2 * memory.PASSES, 3)]
        falls = [after < before / 2 for before, after in pairwise(found)]
        assert any(falls), found


def test_its_starts_and_stops_are_in_the_history(node: Node) -> None:
    agent = node.start()
    wait(lambda: is_ok(node))
    agent.terminate()
    assert agent.wait(20) == 0
    assert events(node) == ["boot", "agent_started", "inventory", "agent_ended"]
    agent = node.start()
    node.log(XID79)
    wait(lambda: "finding_opened" in events(node))
    agent.kill()
    agent.wait()
    node.start()
    wait(lambda: events(node).count("agent_started") == 3)
    found = store.read(node.state / "history").events
    assert [e.facts["after"] for e in found if e.event == "agent_started"] == [
        "reboot",
        "stop",
        "crash",
    ]
    opened = [e for e in found if e.event == "finding_opened" and e.code.startswith("XID")]
    assert [(event.code, event.gpu) for event in opened] == [("XID79", 0)]
    assert opened[0].gpu_uuid.startswith("GPU-")


def half_written(*paths: Path) -> None:
    for path in paths:
        path.write_text(path.read_text()[: path.stat().st_size // 2])


def test_an_incomplete_state_file_has_a_spare_copy(node: Node) -> None:
    agent = node.start()
    node.log(XID79)
    wait(lambda: node.codes() == ["XID79"] and (node.state / "agent.spare.json").exists())
    agent.terminate()
    agent.wait(20)
    half_written(node.state / "agent.json")
    agent = node.start()
    wait(lambda: events(node).count("agent_started") == 2)
    wait(lambda: node.codes() == ["XID79"])
    assert "state_lost" not in events(node)
    assert events(node).count("boot") == 1
    agent.terminate()
    _, said = agent.communicate(timeout=20)
    assert said.count(b"tracked state read from backup") == 1
    assert said.count(b"incomplete JSON") == 1


def test_after_a_lost_state_old_kernel_records_do_not_count(node: Node) -> None:
    """Settled faults stand in the kernel log for the whole of a boot."""
    agent = node.start()
    node.log(XID79)
    wait(lambda: node.codes() == ["XID79"] and (node.state / "agent.spare.json").exists())
    agent.terminate()
    agent.wait(20)
    half_written(node.state / "agent.json", node.state / "agent.spare.json")
    agent = node.start()
    wait(lambda: "state_lost" in events(node) and events(node).count("agent_started") == 2)
    wait(lambda: passes(node) >= 2)
    assert node.codes() == []
    assert events(node).count("boot") == 1, "the boot is unknown"
    starts = store.read(node.state / "history").events
    after = [e.facts["after"] for e in starts if e.event == "agent_started"]
    assert after == ["reboot", "stop"]
    node.log(XID79.replace("79", "48"))
    wait(lambda: node.codes() == ["XID48"])
    agent.terminate()
    _, said = agent.communicate(timeout=20)
    assert said.count(b"tracked state lost") == 1


def test_a_history_that_cannot_be_written_does_not_delay_the_verdict(node: Node) -> None:
    (node.state).mkdir()
    (node.state / "history").write_text("a file where the folder should be")
    node.start()
    wait(lambda: is_ok(node))
    node.log(XID79)
    assert wait(lambda: "XID79" in node.codes()) < 5
    wait(lambda: (node.state / "history.spool").exists())
    wait(lambda: b"holdfast_history_write_failures 1" in (node.run / "metrics.prom").read_bytes())


def test_of_two_agents_that_start_at_once_one_stays(node: Node) -> None:
    both = [node.start(), node.start()]
    wait(lambda: is_ok(node))
    wait(lambda: any(agent.poll() == 0 for agent in both))
    time.sleep(0.5)
    assert [agent.poll() for agent in both].count(None) == 1
    left = next(agent for agent in both if agent.poll() is None)
    assert lock.holder(node.run) == left.pid


def test_an_agent_whose_lock_was_removed_stops(node: Node) -> None:
    agent = node.start()
    wait(lambda: is_ok(node))
    lock.path_in(node.run).unlink()
    assert agent.wait(20) == 0
    node.start()
    wait(lambda: is_ok(node))


def test_metrics_are_served_if_a_port_is_set(node: Node) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    node.configure(f"# {port}")
    text = node.config.read_text()
    node.config.write_text(text.replace("agent: {", f"agent: {{metrics_port: {port}, "))
    agent = node.start()
    wait(lambda: is_ok(node))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        found = {family.name for family in text_string_to_metric_families(page.read().decode())}
    assert {"holdfast_node_status", "holdfast_gpu_temperature_celsius"} <= found
    began = metric(node, "holdfast_agent_start_time_seconds")
    agent.send_signal(signal.SIGHUP)  # and again after a fresh start in the same process
    wait(lambda: metric(node, "holdfast_agent_start_time_seconds") > began, 60)
    wait(lambda: passes(node) > 1, 60)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        assert page.status == 200
    assert agent.poll() is None


def test_systemd_is_notified_of_ready_and_stopping(node: Node, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)
        argv = [sys.executable, "-m", "slurm_hooks.agent", "--node", "w", "--config"]
        agent = subprocess.Popen(
            [*argv, str(node.config)],
            cwd=ROOT,
            env={
                **os.environ,
                "NVMLSIM_STATE": str(node.nvml.state),
                "NOTIFY_SOCKET": str(tmp_path / "notify"),
            },
            stderr=subprocess.PIPE,
        )
        node.agents.append(agent)

        def heard(begin: bytes) -> bytes:
            while not (said := systemd.recv(500)).startswith(begin):
                pass
            return said

        assert b"\nSTATUS=" in heard(b"READY=1\nWATCHDOG=1")
        assert is_ok(node), "ready means that there is a verdict"
        heard(b"WATCHDOG=1")
        agent.terminate()
        heard(b"STOPPING=1")
        assert agent.wait(20) == 0
