"""The command lines of Slurm that Holdfast runs. Pure: values in, argv out.

Sources: man scontrol, sinfo, sdiag of 24.11; each line was run on 24.11.5 and 26.05.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.slurm.hostlist import compress
from holdfast.slurm.parse.values import FIELD, RECORD


def show_nodes(names: Sequence[str], *, json: bool) -> list[str]:
    """All nodes, or those named, one line each or as JSON."""
    which = [compress(names)] if names else []
    return ["scontrol", "show", "nodes", *which, "--json" if json else "--oneliner"]


def show_grouped() -> list[str]:
    """The whole cluster, with equal nodes in one record: 50 times faster than JSON."""
    fields = ("StateComplete", "Reason", "User", "Timestamp", "Comment")
    columns = [f"{name}:{FIELD}" for name in fields] + [f"NodeList:{RECORD}"]
    return ["sinfo", "--all", "--noheader", "--Format", ",".join(columns)]


def show_one(name: str) -> list[str]:
    """One node. slurmctld sends no other to sinfo, which costs it a tenth of ``scontrol show node``: that reads
    all nodes and prints one (seen on 24.11.5 with 10,000 nodes: 3 ms and 12 ms)."""
    fields = ("StateComplete", "Reason", "User", "Timestamp", "Comment", "Reservation")
    columns = [f"{field}:{FIELD}" for field in fields] + [f"NodeList:{RECORD}"]
    return ["sinfo", "--all", "--noheader", f"--nodes={name}", "--Format", ",".join(columns)]


def drain(names: Sequence[str], reason: str) -> list[str]:
    """DRAIN lets running jobs go on. It overwrites any reason: callers read the node before and after."""
    return ["scontrol", "update", f"NodeName={compress(names)}", "State=DRAIN", f"Reason={reason}"]


def undrain(names: Sequence[str]) -> list[str]:
    """UNDRAIN, never RESUME or IDLE: these also clear DOWN, FAIL and requested reboots."""
    return ["scontrol", "update", f"NodeName={compress(names)}", "State=UNDRAIN"]


def set_down(names: Sequence[str], reason: str) -> list[str]:
    """DOWN ends the jobs of the nodes at once. It overwrites any reason: callers read the node before."""
    return ["scontrol", "update", f"NodeName={compress(names)}", "State=DOWN", f"Reason={reason}"]


def resume(names: Sequence[str]) -> list[str]:
    """RESUME also clears DRAIN and FAIL: only for a node that is DOWN and nothing else."""
    return ["scontrol", "update", f"NodeName={compress(names)}", "State=RESUME"]


def comment(names: Sequence[str], text: str) -> list[str]:
    return ["scontrol", "update", f"NodeName={compress(names)}", f"Comment={text}"]


def show_job(job: int | str, *, json: bool) -> list[str]:
    return ["scontrol", "show", "job", str(job), "--json" if json else "--oneliner"]


def running_jobs(node: str) -> list[str]:
    """Number, batch host and start time of the jobs that run on a node, of all partitions."""
    which = ["--all", "--states=RUNNING", f"--nodelist={node}"]
    return ["squeue", "--noheader", *which, "--format=%A %B %S"]


def requeue(job: str) -> list[str]:
    """``job`` as in ``SlurmJob.array_task``, here and below: the number of an array is also the number of
    one of its tasks, and scontrol applies it to all of them."""
    return ["scontrol", "requeue", job]


def requeue_held(job: str) -> list[str]:
    """For a job that is running or has run; Slurm refuses it for one that is pending."""
    return ["scontrol", "requeuehold", job]


def hold(job: str) -> list[str]:
    """A user hold, even when root sets it: the job's owner can release it."""
    return ["scontrol", "uhold", job]


def release(job: str) -> list[str]:
    return ["scontrol", "release", job]


def job_comment(job: str, text: str) -> list[str]:
    return ["scontrol", "update", f"JobId={job}", f"Comment={text}"]


def job_admin_comment(job: str, text: str) -> list[str]:
    """The comment that only administrators can write and all users can read. ``job``: ``array_task``, or a
    number."""
    return ["scontrol", "update", f"JobId={job}", f"AdminComment={text}"]


def queue(mark: str) -> list[str]:
    """Every job that has not ended; an array's pending tasks are one row. ``mark``: as for ``squeue.queue``."""
    names = ("JobArrayID", "State", "Reason", "RestartCnt", "UserName")
    columns = [f"{name}:{FIELD}{mark}" for name in names] + [f"Name:{RECORD}{mark}"]
    states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"
    return ["squeue", "--all", "--noheader", states, "--Format", ",".join(columns)]


def disable_requeue(job: str) -> list[str]:
    """The effect of ``sbatch --no-requeue``. The job's own user may do it, also while it runs."""
    return ["scontrol", "update", f"JobId={job}", "Requeue=0"]


def start_now(job: str, exclude: Sequence[str] | None) -> list[str]:
    """End the delay after a requeue (121 s by default). The job's own user may do it."""
    excluded = [] if exclude is None else [f"ExcNodeList={compress(exclude)}"]
    return ["scontrol", "update", f"JobId={job}", "StartTime=now", *excluded]


def require(job: str, names: Sequence[str]) -> list[str]:
    """The nodes that a pending job names (``sbatch --nodelist``). Only an administrator may change them."""
    return ["scontrol", "update", f"JobId={job}", f"ReqNodeList={compress(names)}"]


def clock() -> list[str]:
    return ["sdiag"]


def config() -> list[str]:
    return ["scontrol", "show", "config"]
