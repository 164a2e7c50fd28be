"""The agent as a process: real binding over a simulated driver, real kernel-log file, no Slurm."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.records import verdict_file
from holdfast.records.verdict_file import Published
from holdfast.vocabulary import Status
from slurm_hooks.node import machine
from slurm_hooks.node.process import process_state
from tests.unit.slurm_hooks.conftest import SimulatedNvml

ROOT = Path(__file__).parents[2]
XID79 = "NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus."


class Node:
    """One node's folders, and the agents that were started on it."""

    def __init__(self, folder: Path, nvml: SimulatedNvml) -> None:
        from testbed.h100 import kmsg, make_node

        self._append = kmsg.append
        self.sim, self.run, self.state = folder / "sim", folder / "run", folder / "state"
        make_node(self.sim, 0)
        self.nvml = SimulatedNvml(nvml.library, self.sim / "nvml.state")
        self.healthy = self.nvml.state.read_text()
        self.config = folder / "holdfast.yaml"
        self.configure()
        self.agents: list[subprocess.Popen[bytes]] = []

    def configure(self, extra: str = "") -> None:
        text = f"""\
paths: {{kmsg: {self.sim}/kmsg, sysfs: {self.sim}/sys, nvml_library: {self.nvml.library},
         run: {self.run}, state: {self.state}}}
slurm: {{bin: {self.sim}, timeout_s: 0.5}}
node: {{expected_gpus: 8}}
agent: {{interval_s: 0.3, probe_deadline_s: 0.6, verdict_ttl_s: 5}}
checks: {{gpu_xid: {{mode: drain}}, gpu_count: {{mode: drain}}, driver_hung: {{mode: drain}}}}
{extra}"""
        fresh = self.config.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.config)

    def start(self) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "slurm_hooks.agent", "--node", "w", "--config"]
        agent = subprocess.Popen(
            [*argv, str(self.config)],
            cwd=ROOT,
            env={**os.environ, "NVMLSIM_STATE": str(self.nvml.state)},
            stderr=subprocess.PIPE,
        )
        self.agents.append(agent)
        return agent

    def log(self, *texts: str) -> None:
        self._append(self.sim / "kmsg", texts)

    def verdict(self) -> Published:
        path = verdict_file.path_in(self.run)
        return verdict_file.read(path, boot_id=machine.boot_id(), uptime_s=machine.uptime_s())

    def codes(self) -> list[str]:
        """Of the checks that may drain here: the others see what this machine itself is like."""
        found = self.verdict().findings
        return [finding["code"] for finding in found if finding["mode"] == "drain"]

    def heal(self) -> None:
        self.nvml.state.write_text(self.healthy)

    def stop(self) -> None:
        self.heal()
        for agent in self.agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGTERM)
            agent.communicate(timeout=10)


@pytest.fixture
def node(tmp_path: Path, nvml: SimulatedNvml) -> Iterator[Node]:
    made = Node(tmp_path, nvml)
    yield made
    made.stop()


def wait(what: Callable[[], bool], limit_s: float = 60) -> float:
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < limit_s, "it did not happen"
        time.sleep(0.005)
    return time.monotonic() - began


def is_ok(node: Node) -> bool:
    return node.verdict().status is Status.OK


def test_a_healthy_node_is_ok_and_stays_fresh(node: Node) -> None:
    node.start()
    wait(lambda: is_ok(node))
    first = node.verdict().detail["at"]
    wait(lambda: node.verdict().detail["at"] > first)
    assert (node.run / "jobs").stat().st_mode & 0o7777 == 0o700, "for root alone"


def test_a_fatal_xid_is_in_the_verdict_at_once_and_survives_a_restart(node: Node) -> None:
    agent = node.start()
    wait(lambda: is_ok(node))
    node.log(XID79)
    assert wait(lambda: node.verdict().status is Status.BAD) < 5
    (finding,) = node.verdict().findings
    assert (finding["code"], finding["gpu"], finding["action"]) == ("XID79", 0, "reboot")
    assert not node.verdict().drained, "there is no Slurm in this test"
    agent.kill()
    verdict_file.path_in(node.run).unlink()
    node.start()
    wait(lambda: node.codes() == ["XID79"])


def test_an_xid_while_no_agent_runs_is_not_missed_and_no_old_one_is_new(node: Node) -> None:
    agent = node.start()
    wait(lambda: is_ok(node))
    agent.terminate()
    assert agent.wait(10) == 0
    node.log(XID79)
    node.start()
    wait(lambda: node.codes() == ["XID79"])

    def remembered() -> list[int]:
        memory = json.loads((node.state / "agent.json").read_text())
        return [event["xid"] for event in memory["xids"]]

    wait(lambda: remembered() == [79])


@pytest.mark.parametrize(
    ("kind", "code"), [("1", "DRIVER_SUSPECT"), ("D", "DRIVER_HUNG"), ("K", "DRIVER_HUNG")]
)
def test_a_hung_driver_is_blind_then_a_fault_and_delays_nothing(
    node: Node, kind: str, code: str
) -> None:
    """No answer alone is a suspicion; a task in state D in the kernel confirms it."""
    node.start()
    wait(lambda: is_ok(node))
    node.nvml.set("sys.hang.*", kind)
    node.nvml.set("gpu.*.hang.*", kind)
    wait(lambda: node.verdict().status is Status.BLIND)
    node.log(XID79)
    assert wait(lambda: "XID79" in node.codes()) < 5, "the kernel log does not wait for NVML"
    wait(lambda: code in node.codes())
    node.heal()
    wait(lambda: node.codes() == ["XID79"])


def test_a_second_agent_exits(node: Node) -> None:
    node.start()
    wait(lambda: is_ok(node))
    second = node.start()
    assert second.wait(10) == 0
    assert node.agents[0].poll() is None


def test_sigterm_leaves_no_process_behind(node: Node) -> None:
    agent = node.start()
    wait(lambda: is_ok(node))
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    assert children, "the NVML worker"
    agent.terminate()
    assert agent.wait(10) == 0
    wait(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_restarts_leave_no_zombies(node: Node) -> None:
    """The workers of the program before are children of the restarted one."""
    agent = node.start()
    assert agent.stderr is not None
    os.set_blocking(agent.stderr.fileno(), False)
    log = bytearray()

    def started() -> int:
        log.extend(agent.stderr.read() or b"")  # type: ignore[union-attr]
        return log.count(b"started node=w")

    for number in range(1, 4):
        wait(lambda number=number: started() == number)  # type: ignore[misc]
        wait(lambda: bool(_children(agent.pid)))
        agent.send_signal(signal.SIGHUP)
    wait(lambda: started() == 4)
    wait(lambda: is_ok(node))
    wait(lambda: "Z" not in _children(agent.pid))


def _children(parent: int) -> list[str]:
    """The states of a process's children."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [state[0] for pid in found if (state := process_state(int(pid)))]


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_a_sigterm_during_a_restart_stops_it(node: Node, delay_s: float) -> None:
    """While it closes, executes itself, and until it catches signals again."""
    agent = node.start()
    wait(lambda: is_ok(node))
    agent.send_signal(signal.SIGHUP)
    time.sleep(delay_s)
    agent.terminate()
    assert agent.wait(60) == 0


def test_the_kill_switch_needs_no_configuration(node: Node) -> None:
    node.start()
    node.log(XID79)
    wait(lambda: node.verdict().status is Status.BAD)
    (node.config.parent / "off").mkdir()
    (node.config.parent / "off" / "gpu_xid").touch()
    wait(lambda: is_ok(node))


def test_a_new_valid_configuration_is_used_an_invalid_one_is_not(node: Node) -> None:
    agent = node.start()
    wait(lambda: is_ok(node))
    node.configure("chekcs: {}")
    time.sleep(0.8)
    assert is_ok(node)
    node.configure("cluster: other")
    node.log(XID79)
    wait(lambda: node.codes() == ["XID79"])
    node.config.write_text(node.config.read_text().replace("gpu_xid: {mode: drain}, ", ""))
    wait(lambda: is_ok(node))
    assert agent.poll() is None, "the same process, begun afresh"


def test_a_restart_with_an_invalid_configuration_keeps_the_previous_one(node: Node) -> None:
    agent = node.start()
    wait(lambda: is_ok(node))
    node.configure("chekcs: {}")
    begun = node.verdict().detail["at"]
    agent.send_signal(signal.SIGHUP)
    wait(lambda: node.verdict().detail["at"] > begun + 1)
    node.log(XID79)
    wait(lambda: node.codes() == ["XID79"])
    assert agent.poll() is None


@pytest.mark.parametrize("how", ["broken", "gone"])
def test_after_a_kill_with_an_invalid_configuration_it_uses_the_previous_one(
    node: Node, how: str
) -> None:
    node.start()
    wait(lambda: is_ok(node))
    if how == "gone":
        node.config.unlink()
    else:
        node.configure("node: {}\nbridg: {}")
    node.agents[0].kill()
    node.agents[0].wait(10)
    verdict_file.path_in(node.run).unlink()
    second = node.start()
    wait(lambda: is_ok(node))
    node.log(XID79)
    wait(lambda: node.codes() == ["XID79"])
    node.configure("")
    text = node.config.read_text().replace("gpu_xid: {mode: drain}, ", "")
    fresh = node.config.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(node.config)
    wait(lambda: is_ok(node))
    second.terminate()
    _, said = second.communicate(timeout=10)
    lines = [line for line in said.decode().splitlines() if "using the last accepted one" in line]
    told = ["this file no longer exists"] if how == "gone" else ["given twice", "'bridge'"]
    assert [word in line for word, line in zip(told, lines, strict=True)] == [True] * len(told)
    assert all(re.match(r"20\d\d-\S+Z error agent: ", line) for line in lines)


def test_an_invalid_new_configuration_is_one_line_for_each_problem(node: Node) -> None:
    agent = node.start()
    wait(lambda: is_ok(node))
    node.configure("chekcs: {}\nbridg: {}")
    seen = node.verdict().detail["at"]
    wait(lambda: node.verdict().detail["at"] > seen + 1)
    agent.terminate()
    _, said = agent.communicate(timeout=10)
    lines = [line for line in said.decode().splitlines() if "the previous one stays in use" in line]
    assert ["chekcs" in line for line in lines] == [True, False]
    assert ["bridg:" in line for line in lines] == [False, True]


def test_an_invalid_configuration_is_one_line_for_each_problem_and_status_2(node: Node) -> None:
    node.configure("chekcs: {}\nbridg: {}")
    agent = node.start()
    assert agent.wait(10) == 2
    assert agent.stderr is not None
    said = agent.stderr.read().decode().splitlines()
    assert len(said) == 2
    assert all(str(node.config) in line for line in said)


def test_the_check_command_shows_what_the_agent_would_see(node: Node) -> None:
    node.nvml.set("count", 7)
    argv = [sys.executable, "-m", "holdfast", "check", "--json", "--config", str(node.config)]
    env = {**os.environ, "NVMLSIM_STATE": str(node.nvml.state)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    counted = rows["gpu_count"]
    assert (counted["value"], counted["verdict"]) == ("7 GPUs, 8 on the PCI bus", "fatal")
    assert rows["gpu_count"]["remedy"].startswith("GPU_COUNT: ")
    assert rows["gpu_xid"]["verdict"] == "ok"
    wrong = subprocess.run(
        [*argv, "gpu_cont"], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean 'gpu_count'?" in wrong.stderr
