"""bob attacks the files and sockets of a node's agent: alice's job still restarts promptly."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from demonstration.observe import Cluster
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job.training import Training, submit

pytestmark = pytest.mark.one_release

NODE = "worker-0"
_ALICES = """#!/bin/bash
#SBATCH --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=64M --requeue --nodelist=worker-0
#SBATCH --open-mode=append --output={folder}/log
holdfast run --checkpoints {folder} -- srun sleep 600
"""
_PROMPTLY_S = 60.0
"""Half of Slurm's requeue delay; on an idle machine a restart takes three seconds."""


def alices_job(box: Box) -> Training:
    """A job on one core of worker-0, which leaves room for bob. Returns once its agent tracks it, even
    if the job started before the first agent of the boot."""
    folder = f"/mnt/training/hostile-{time.monotonic_ns()}"
    box.run(["install", "-d", "-o", "alice", folder])
    script = _ALICES.format(folder=folder)
    job = Training(
        box, int(box.run(["sbatch", "--parsable"], user="alice", stdin=script).stdout), folder
    )
    job.wait(lambda: marked(box, job.job_id), "a marker")
    return job


def bobs_job(box: Box) -> int:
    submit_argv = [
        "sbatch",
        "--parsable",
        f"--nodelist={NODE}",
        "--mem=64M",
        "-c1",
        "-o",
        "/dev/null",
    ]
    number = int(box.run([*submit_argv, "--wrap", "sleep 600"], user="bob").stdout)
    bob = Training(box, number, "")
    bob.wait_state("RUNNING")
    return number


def marked(box: Box, job: int) -> bool:
    return box.node(NODE).path(f"/run/holdfast/jobs/{job}.json").exists()


def kill_launcher(box: Box, job: Training) -> None:
    killed = 0
    for pid, argv in box.pids(NODE):
        if (
            job.folder in argv
            and "run" in argv
            and any(word.endswith("/holdfast") for word in argv)
        ):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    assert killed == 1


def restarts_promptly(job: Training) -> None:
    job.wait(lambda: job.restarts == 1 and job.state == "RUNNING", "running again", _PROMPTLY_S)


def agent_cpu_s(box: Box) -> float:
    """CPU seconds of the agent and its workers, including exited ones."""
    ticks = 0
    for pid, argv in box.pids(NODE):
        if "slurm_hooks.agent" in argv:
            words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += sum(map(int, words[11:15]))  # proc(5): utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


def verdict(box: Box, node: str) -> dict[str, Any]:
    """The verdict; empty without a file."""
    return Cluster(box).verdict(node) or {}


@contextmanager
def flooding(box: Box, seconds: float, job: int) -> Iterator[dict[str, int]]:
    """Run bob's program during the body; afterwards the dictionary has its counts."""
    counts: dict[str, int] = {}
    program = Path(__file__).with_name("flood.py").read_text()
    argv = ["python3", "-c", program, "/run/holdfast", str(seconds), str(job)]

    def run() -> None:
        done = box.node(NODE).run(argv, user="bob", timeout_s=seconds + 60)
        counts.update(json.loads(done.stdout))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield counts
    finally:
        thread.join()


def test_a_user_cannot_write_to_holdfasts_folders(clean_box: Box) -> None:
    job = alices_job(clean_box)
    bobs_job(clean_box)
    look = (
        "cd /run/holdfast && find . -writable -printf '%p ' 2>/dev/null;"
        f" mkdir jobs/99.json; touch jobs/{job.job_id}.json notes/9.0.end ended/9 reports/9.json;"
        " mkdir sockets/2001.sock; rm -f sockets/2001.sock; mv sockets sockets2; ls jobs"
    )
    for folder in ("/var/lib/holdfast", "/var/log/holdfast"):
        look += f"; find {folder} -writable -printf '%p ' 2>/dev/null"
    seen = clean_box.node(NODE).run(["sh", "-c", look], user="bob", check=False)
    assert seen.stdout.split() == ["./sockets/2002.sock"], "only bob's own socket"
    assert seen.stderr.count("Permission denied") >= 8
    clean_box.run(["scancel", "--user=bob"])


def test_a_flood_does_not_delay_another_users_restart(clean_box: Box) -> None:
    """bob also claims that alice's job has finished, so that it should not be requeued."""
    box = clean_box
    job = alices_job(box)
    bobs_job(box)
    with flooding(box, 10, job.job_id) as counts:
        time.sleep(1)
        kill_launcher(box, job)
        restarts_promptly(job)
    box.run(["scancel", "--user=bob"])
    assert (counts["taken"], counts["others' sockets"]) == (0, 0), counts
    # A burst, then one a second: each takes 0.1 ms of the agent, however many bob sends.
    assert counts["queue full"] > 20 * counts["sent"], counts
    assert counts["refused"] <= 32 + 10 + 5, counts


def test_a_restarted_agent_tracks_the_jobs(clean_box: Box) -> None:
    """Even one that was down while the launcher sent a message."""
    box = clean_box
    job = alices_job(box)
    box.fault(NODE, "agent-killed")
    kill_launcher(box, job)
    restarts_promptly(job)
    job.wait(lambda: marked(box, job.job_id), "the second run's marker", 60)


def test_a_fault_is_handled_while_run_is_full(clean_box: Box) -> None:
    """With a full /run verdicts stay current, a faulty node is drained, its job continues elsewhere."""
    box = clean_box
    job = submit(box, steps=3000)
    job.wait_step(7)
    victim = job.nodes()[0]  # the batch host: its agent must also keep the marker
    node = box.node(victim)
    before = verdict(box, victim)["agent_pid"]
    box.fault(victim, "run-full")
    box.fault(victim, "agent-killed")  # the next one starts on the full filesystem
    cluster.wait_for(
        lambda: verdict(box, victim).get("agent_pid", before) != before, "the next agent's verdict"
    )
    # A file that somebody just removed leaves room for one more, until the fault takes it.
    one_more = ["sh", "-c", "touch /run/more && rm /run/more"]
    cluster.wait_for(lambda: node.run(one_more, check=False).returncode == 1, "/run is full", 20)
    box.fault(victim, "gpu-lost", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(box, victim), f"{victim} drained", 20)
    assert verdict(box, victim)["status"] == "bad"
    job.wait(lambda: job.restarts == 1 and job.state == "RUNNING", "running again", _PROMPTLY_S)
    assert victim not in job.nodes()
