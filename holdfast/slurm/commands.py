"""The command lines that Holdfast gives to Slurm. Pure: values in, argv out.

Sources: man scontrol, sinfo, sdiag of 24.11; each line was run on 24.11.5 and 26.05.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.slurm.hostlist import compress
from holdfast.slurm.parse import FIELD, RECORD


def show_nodes(names: Sequence[str], *, json: bool) -> list[str]:
    """All nodes, or those named, one line each or as JSON."""
    which = [compress(names)] if names else []
    return ["scontrol", "show", "nodes", *which, "--json" if json else "--oneliner"]


def show_grouped() -> list[str]:
    """The whole cluster, equal nodes folded into one record: 50 times cheaper than JSON."""
    fields = ("StateComplete", "Reason", "User", "Timestamp", "Comment")
    columns = [f"{name}:{FIELD}" for name in fields] + [f"NodeList:{RECORD}"]
    return ["sinfo", "--all", "--noheader", "--Format", ",".join(columns)]


def drain(names: Sequence[str], reason: str) -> list[str]:
    """DRAIN keeps running jobs running. It overwrites any reason: read first, and read after."""
    return ["scontrol", "update", f"NodeName={compress(names)}", "State=DRAIN", f"Reason={reason}"]


def undrain(names: Sequence[str]) -> list[str]:
    """UNDRAIN, never RESUME or IDLE: these also clear DOWN, FAIL and reboots that others asked."""
    return ["scontrol", "update", f"NodeName={compress(names)}", "State=UNDRAIN"]


def comment(names: Sequence[str], text: str) -> list[str]:
    return ["scontrol", "update", f"NodeName={compress(names)}", f"Comment={text}"]


def show_job(job: int | str, *, json: bool) -> list[str]:
    return ["scontrol", "show", "job", str(job), "--json" if json else "--oneliner"]


def requeue(job: str) -> list[str]:
    """``job`` as ``SlurmJob.array_task`` names it, here and below: an array's own number is that of one of
    its elements as well, and means them all."""
    return ["scontrol", "requeue", job]


def requeue_held(job: str) -> list[str]:
    """For a job that runs or ran; Slurm refuses it for one that is pending already."""
    return ["scontrol", "requeuehold", job]


def hold(job: str) -> list[str]:
    """A user's hold, whoever sets it: the job's owner can release it."""
    return ["scontrol", "uhold", job]


def job_comment(job: str, text: str) -> list[str]:
    return ["scontrol", "update", f"JobId={job}", f"Comment={text}"]


def job_admin_comment(job: str, text: str) -> list[str]:
    """The comment that only administrators write and everybody reads. ``job``: ``array_task``, or a
    number."""
    return ["scontrol", "update", f"JobId={job}", f"AdminComment={text}"]


def never_requeue(job: str) -> list[str]:
    """As ``sbatch --no-requeue`` would have. The job's own user may do it, also while it runs."""
    return ["scontrol", "update", f"JobId={job}", "Requeue=0"]


def start_now(job: str, exclude: Sequence[str]) -> list[str]:
    """Ends the delay after a requeue (121 s by default). The job's own user may do it."""
    apart = [f"ExcNodeList={compress(exclude)}"] if exclude else []
    return ["scontrol", "update", f"JobId={job}", "StartTime=now", *apart]


def clock() -> list[str]:
    return ["sdiag"]


def config() -> list[str]:
    return ["scontrol", "show", "config"]
