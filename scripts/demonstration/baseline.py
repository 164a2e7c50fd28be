"""The same job on the same Slurm without Holdfast.

All actions of Holdfast are switched off (``/etc/holdfast/off/all``) and the batch script does not use
it. The job fails and stays failed. So the comparison uses the best case of plain Slurm: an
administrator who sees the failure, drains the node by hand and requeues the job, without any delay.
Then Slurm waits (a revoked credential must not be used again: AuthInfo cred_expire, 120 s by default,
plus one), and the job starts again from the beginning.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from demonstration.jobs import Job, Order, submit
from demonstration.live import Live
from demonstration.observe import Cluster, NotSeenError, until

OFF = "/etc/holdfast/off/all"
HUMAN_REASON = "GPU looks dead, ticket open"


@dataclass(slots=True)
class Baseline:
    """The run of the job without Holdfast. Times in epoch seconds."""

    job: Job
    victim: str
    fault_s: float
    fault_step: int
    failed_s: float
    error: str
    requeued_s: float
    restarted_s: float = 0.0
    next_step_s: float = 0.0
    human_reason: str = ""
    problems: list[str] = field(default_factory=list)


def switch_off(cluster: Cluster, off: bool) -> None:
    """Holdfast's kill switch for the whole box."""
    if off:
        cluster.box.run(["install", "-D", "/dev/null", OFF])
    else:
        cluster.box.run(["rm", "-f", OFF])


def until_requeued(cluster: Cluster, live: Live, order: Order, fault_step: int) -> Baseline:
    """Submit, inject the fault, wait for the failure, drain and requeue. Returns while the job waits."""
    switch_off(cluster, True)
    try:
        job = submit(cluster, order)
        nodes = job.wait_state("RUNNING", timeout_s=60).nodes
        live.say(f"job {job.job_id} trains on {', '.join(nodes)} without Holdfast")
        job.wait_step(fault_step)
        begin, gpu = time.time(), order.ranks_per_node - 1
        cluster.box.fault(nodes[-1], "gpu-lost", "--gpu", str(gpu))
        logged = until(lambda: cluster.kernel_log(nodes[-1], "Xid", begin), "Xid", 2, 0.01)
        reached = job.latest_step()
        view = job.wait_state("FAILED", "COMPLETED", "NODE_FAIL", timeout_s=60)
        failed_s = time.time()
        error = next((ln for ln in job.log().splitlines() if "CUDA error" in ln), "no CUDA error")
        live.say(f"{failed_s - logged[0]:+6.2f} s  job {job.job_id} is {view.state}: {error[:80]}")
        drain = [
            "scontrol",
            "update",
            f"nodename={nodes[-1]}",
            "state=drain",
            f"reason={HUMAN_REASON}",
        ]
        cluster.box.run(drain)
        cluster.box.run(["scontrol", "requeue", str(job.job_id)])
    finally:
        switch_off(cluster, False)
    live.say(
        "an administrator drains the node and requeues the job at once; Slurm delays its start"
    )
    return Baseline(
        job=job,
        victim=nodes[-1],
        fault_s=logged[0],
        fault_step=reached,
        failed_s=failed_s,
        error=error,
        requeued_s=time.time(),
    )


def to_the_end(cluster: Cluster, live: Live, run: Baseline) -> None:
    """Wait for Slurm's delay and the whole training; then read the reason of the manual drain."""

    def again() -> float | None:
        left = run.requeued_s + 121 - time.time()
        live.passing(f"job {run.job.job_id} waits for Slurm's requeue delay: {max(0, left):.0f} s")
        if not run.restarted_s and time.time() > run.requeued_s + 110:
            run.restarted_s = time.time() if run.job.view().state == "RUNNING" else 0.0
        steps = [line for line in run.job.progress() if line["event"] == "step"]
        return next((float(line["t"]) for line in steps if line["attempt"] >= 1), None)

    run.next_step_s = until(again, "the first step after Slurm's requeue delay", 200, 0.5)
    live.say(f"{run.next_step_s - run.fault_s:+6.2f} s  trains again, from the beginning")
    run.job.wait_state("COMPLETED", timeout_s=120)
    run.human_reason = cluster.node(run.victim).reason
    if run.human_reason != HUMAN_REASON:
        run.problems.append(
            f"{run.victim}: drained by hand with '{HUMAN_REASON}', now '{run.human_reason}'"
        )
    live.say(
        f"job {run.job.job_id} is COMPLETED; {run.victim} still has the reason '{run.human_reason}'"
    )


def try_to_the_end(cluster: Cluster, live: Live, run: Baseline) -> None:
    """As ``to_the_end``; a missing event becomes a problem of the run."""
    try:
        to_the_end(cluster, live, run)
    except NotSeenError as error:
        run.problems.append(str(error))
        live.say(f"NOT OBSERVED  {error}")
