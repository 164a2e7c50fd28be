"""The Slurm client over Slurm's own commands: works with every release; each call is bounded in time.

Facts that shape this module (seen on 24.11.5 and 26.05.5):

* ``scontrol show … --json`` prints an empty list and exits 0 both for an unknown name and when
  slurmctld is down or hung. So an empty list is never trusted: the same query is repeated as text,
  whose error message distinguishes the two.
* A hung slurmctld holds text commands for MessageTimeout and JSON ones for twice as long.
* A job's name may hold ``JobState=…``, so jobs are read as JSON (10 ms) and never as text (5 ms).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from holdfast.adapters.command import run
from holdfast.errors import CommandError, NotInstalled, Refused, Unavailable
from holdfast.node_names import natural
from holdfast.policy.ownership import PastDrain
from holdfast.slurm import accounting, topology
from holdfast.slurm import commands as argv_of
from holdfast.slurm.client import QueuedJob, RunningJob, SlurmJob, SlurmNode
from holdfast.slurm.parse import scontrol_json, scontrol_text, sdiag, sinfo, squeue, values
from holdfast.text.printable import folded
from holdfast.vocabulary import SlurmName

T = TypeVar("T")

ENV: Mapping[str, str | None] = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "SLURM_TIME_FORMAT": "%s",
    # Settings of users and sites that change the output format or select another cluster.
    **dict.fromkeys(
        (
            "SCONTROL_ALL", "SCONTROL_FEDERATION", "SCONTROL_FUTURE", "SCONTROL_LOCAL",
            "SCONTROL_ONE_LINER", "SCONTROL_SIBLING", "SINFO_ALL", "SINFO_FEDERATION",
            "SINFO_FORMAT", "SINFO_LOCAL", "SINFO_PARTITION", "SINFO_SORT", "SLURM_CLUSTERS",
            "SLURM_JSON", "SLURM_YAML", "SQUEUE_ACCOUNT", "SQUEUE_ALL", "SQUEUE_ARRAY",
            "SQUEUE_FEDERATION", "SQUEUE_FORMAT", "SQUEUE_FORMAT2", "SQUEUE_LICENSES", "SQUEUE_LOCAL",
            "SQUEUE_NAMES", "SQUEUE_PARTITION", "SQUEUE_QOS", "SQUEUE_SORT", "SQUEUE_STATES",
            "SQUEUE_USERS",
        )
    ),
}  # fmt: skip
"""The environment of every call; ``None`` removes a variable."""

NO_ANSWER = re.compile(
    r"unable to contact|timed out|connection refused|connect failure|connection failure"
    r"|not connected|zero bytes|unexpected message received|no route to host|unreachable"
    r"|getaddrinfo|resource temporarily unavailable|standby mode|authentication error"
    r"|not responding|unable to establish|munged |munge (?:encode|decode)"
    r"|connection reset|connection aborted|broken pipe|host is down"
    r"|(?:message (?:send|receive)|communication (?:connection|shutdown)) failure",
    re.IGNORECASE,
)
_NO_JOB = re.compile(r"invalid job id", re.IGNORECASE)
_NO_NODE = re.compile(r"^Node (\S+) not found", re.MULTILINE)
_PENDING = re.compile(r"job is pending", re.IGNORECASE)
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class SlurmCli:
    """The protocol ``holdfast.slurm.client.SlurmClient`` over scontrol, sinfo and sdiag.

    ``timeout_s`` bounds each command; a query may need two of them. ``bin_dir`` is the folder of the
    commands; empty: found along PATH. ``token_file`` contains a JSON Web Token, as ``scontrol token``
    prints it, with which the commands authenticate; it is read for each command, since tokens are
    renewed. Empty: the cluster's AuthType applies. Raises ``Unavailable`` (no answer, or the command is
    not installed, or the token cannot be read) and ``Refused`` (the request was rejected).
    """

    def __init__(self, timeout_s: float, bin_dir: str = "", token_file: str = ""):
        self._timeout_s = timeout_s
        self._bin = bin_dir
        self._token_file = token_file
        self._grouped = sinfo.GroupedNodes()

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        """All nodes, or those named, in Slurm's order. An unknown name raises ``Refused``."""
        if len(names) == 1:
            return self._nodes_json(names)
        argv = argv_of.show_nodes(self._checked(names), json=False)
        text = self._parsed(argv, scontrol_text.nodes_text)
        exact = {node.name: node for node in text.nodes}
        if text.ambiguous:
            exact |= {node.name: node for node in self._nodes_json(text.ambiguous)}
        return [exact[name] for name in sorted(exact, key=natural)]

    def nodes_in_full(self, names: Sequence[SlurmName]) -> list[SlurmNode]:
        """These nodes, with what ``nodes`` reads only of a single one, in one command: for each command that
        shows nodes slurmctld sends all of them."""
        return self._nodes_json(names)

    def nodes_fast(self) -> list[SlurmNode]:
        """Every node with its states, reason, reason's user and time, and comment only.

        Slurm prints equal nodes as one record: 33 ms for 10,000 nodes, where JSON takes 1 to 3 s.
        Falls back to ``nodes()`` when a text contains the separators.
        """
        try:
            return self._grouped.read(self._run(argv_of.show_grouped()))
        except ValueError:
            return self.nodes()

    def node_state(self, name: SlurmName) -> SlurmNode | None:
        """One node as in ``nodes_fast``, with its reservation, at the least cost for slurmctld. ``None`` where
        ``nodes`` has to be asked: for a node in no partition, an unknown one, or an unclear text."""
        (checked,) = self._checked([name])
        found = sinfo.one(self._run(argv_of.show_one(checked)))
        return found if found is not None and found.name == name else None

    def drain(self, names: Sequence[SlurmName], reason: str) -> None:
        self._run(argv_of.drain(self._checked(names, some=True), _one_line(reason)))

    def undrain(self, names: Sequence[SlurmName]) -> None:
        self._run(argv_of.undrain(self._checked(names, some=True)))

    def set_down(self, names: Sequence[SlurmName], reason: str) -> None:
        self._run(argv_of.set_down(self._checked(names, some=True), _one_line(reason)))

    def resume(self, names: Sequence[SlurmName]) -> None:
        self._run(argv_of.resume(self._checked(names, some=True)))

    def comment(self, names: Sequence[SlurmName], text: str) -> None:
        self._run(argv_of.comment(self._checked(names, some=True), _one_line(text)))

    def job(self, job_id: int) -> SlurmJob | None:
        """The job, or ``None`` when slurmctld does not know it."""
        argv = argv_of.show_job(job_id, json=True)
        found = self._parsed(argv, lambda text: scontrol_json.job_json(text, job_id))
        if found is not None:
            return found
        try:
            self._run(argv_of.show_job(job_id, json=False))
        except Refused as error:
            if _NO_JOB.search(error.output):
                return None
            raise
        # slurmctld answers now; it did not for the first query.
        return self._parsed(argv, lambda text: scontrol_json.job_json(text, job_id))

    def running_jobs(self, name: SlurmName) -> list[RunningJob]:
        """The jobs in state RUNNING that have this node."""
        (checked,) = self._checked([name])
        return self._parsed(argv_of.running_jobs(checked), squeue.running_jobs)

    def array_task_job_id(self, name: str) -> int:
        """The job number of an array task (``4711_3``, as squeue shows it)."""
        text = self._run(argv_of.show_job(name, json=False))
        found = re.match(r"JobId=([0-9]+) ", text)
        if found is None:
            raise Refused(["scontrol"], f"Slurm knows no job {name}")
        return int(found[1])

    def requeue(self, job_id: int) -> None:
        self._run(argv_of.requeue(self._exact(job_id)))

    def hold(self, job_id: int, why: str) -> None:
        """Requeue the job in hold; ``why`` becomes its comment where the caller may write it."""
        job = self._exact(job_id)
        try:
            self._run(argv_of.requeue_held(job))
        except Refused as error:
            if not _PENDING.search(error.output):
                raise
            self._run(argv_of.hold(job))
        try:
            self._run(argv_of.job_comment(job, _one_line(why)))
        except CommandError:
            pass  # the hold is what matters; the journal has the reason too

    def _exact(self, job_id: int) -> str:
        """Slurm's name of what restarts together: an array task alone, a het job as a whole.

        Raises ``Refused`` for a job that Slurm does not know.
        """
        job = self.job(job_id)
        if job is None:
            raise Refused(["scontrol"], f"Slurm knows no job {job_id}")
        return job.array_task if "_" in job.array_task else str(job_id)

    def admin_comment(self, job: SlurmJob, text: str) -> None:
        """Write the AdminComment of exactly this job. Slurm refuses it for a job that has ended."""
        name = job.array_task or str(job.job_id)
        self._run(argv_of.job_admin_comment(name, _one_line(text)))

    def release(self, job_id: int) -> None:
        self._run(argv_of.release(self._exact(job_id)))

    def disable_requeue(self, job_id: int) -> None:
        self._run(argv_of.disable_requeue(self._exact(job_id)))

    def start_now(self, job_id: int, exclude: Sequence[SlurmName] | None = None) -> None:
        names = None if exclude is None else self._checked(exclude)
        self._run(argv_of.start_now(self._exact(job_id), names))

    def require(self, job_id: int, names: Sequence[SlurmName]) -> None:
        """Set the nodes that a pending job names (``sbatch --nodelist``), also to none."""
        self._run(argv_of.require(self._exact(job_id), self._checked(names)))

    def clock(self) -> datetime:
        return self._parsed(argv_of.clock(), sdiag.clock)

    def node_changes(self) -> sdiag.NodeChanges:
        """How many requests to change a node slurmctld has received."""
        return self._parsed(argv_of.clock(), sdiag.node_changes)

    def slurmctld_at(self) -> datetime:
        """The start time of the slurmctld that answers. `scontrol reconfigure` starts a new one."""
        return self._parsed(argv_of.config(), scontrol_text.slurmctld_at)

    def spool_folder(self) -> str:
        """SlurmdSpoolDir; ``%n`` and ``%h`` in it stand for the node's name and its host name."""
        return self._parsed(argv_of.config(), scontrol_text.spool_folder)

    def past_drains(self, name: SlurmName, since: datetime) -> list[PastDrain]:
        """The node's drains in accounting that were in effect at ``since`` or began later."""
        (checked,) = self._checked([name])
        return list(accounting.past_drains(self._run(accounting.argv(checked, since))))

    def queue(self) -> list[QueuedJob]:
        """The jobs that have not ended."""
        mark = _mark()
        return squeue.queue(self._run(argv_of.queue(mark)), mark)

    def past_job(self, job: str) -> accounting.PastJob | None:
        """The last run of a job (a number or ``ARRAY_TASK``) in accounting, which answers also while
        slurmctld does not."""
        mark = _mark()
        return accounting.past_job(self._run(accounting.job_argv(job, mark)), mark)

    def topology(self) -> list[topology.Group]:
        """The leaf switches or blocks of the cluster."""
        return topology.groups(self._run(topology.argv()))

    def restarts(self, jobs: Sequence[str]) -> Mapping[str, accounting.Restarts]:
        """What accounting knows of the runs of these jobs (numbers), by number."""
        return accounting.restarts(self._run(accounting.runs_argv(jobs)))

    def failures(self, since: datetime) -> Mapping[str, accounting.Failures]:
        """How often each node was drained or down since then, in accounting."""
        return accounting.failures(self._run(accounting.failures_argv(since)))

    def _nodes_json(self, names: Sequence[SlurmName]) -> list[SlurmNode]:
        argv = argv_of.show_nodes(self._checked(names), json=True)
        wanted = frozenset(names)
        for last in (False, True):
            found = self._parsed(argv, scontrol_json.nodes_json)
            nodes = [node for node in found if node.name in wanted]
            missing = wanted - {node.name for node in nodes}
            if not missing:
                return nodes
            if not last:
                self._run(
                    argv_of.show_nodes(sorted(missing), json=False)
                )  # its error message has the cause
        raise Refused(argv, f"Slurm knows no node {', '.join(sorted(missing))}")

    def _checked(self, names: Sequence[SlurmName], *, some: bool = False) -> Sequence[SlurmName]:
        """The names, after a check that none is anything else to scontrol (``ALL``, a range)."""
        wrong = [name for name in names if not _NODE_NAME.fullmatch(name) or name == "ALL"]
        if wrong or (some and not names):
            raise Refused(["scontrol"], f"not a node name: {', '.join(wrong) or 'none given'}")
        return names

    def _parsed(self, argv: Sequence[str], reader: Callable[[str], T]) -> T:
        try:
            return reader(self._run(argv))
        except values.ParseError as error:
            raise Unavailable(argv, f"unexpected output: {error}") from None

    def _run(self, argv: Sequence[str]) -> str:
        tool, *rest = argv
        full = [str(Path(self._bin) / tool) if self._bin else tool, *rest]
        try:
            return run(full, timeout_s=self._timeout_s, env={**ENV, **self._token(full)})
        except Unavailable:
            raise
        except CommandError as error:
            if error.status is None:
                problem = (
                    f"{error.problem}; is Slurm installed here? (slurm.bin in the configuration)"
                )
                raise NotInstalled(error.argv, problem) from None
            unknown = _NO_NODE.search(error.output)
            if unknown:  # the rest of its output is about the other nodes
                raise Refused(error.argv, f"Slurm knows no node {unknown[1]}", "", 1) from None
            kind = Unavailable if NO_ANSWER.search(error.output) else Refused
            raise kind(error.argv, error.problem, error.output, error.status) from None

    def _token(self, argv: Sequence[str]) -> dict[str, str]:
        """``SLURM_JWT``, which makes Slurm's commands use auth/jwt only."""
        if not self._token_file:
            return {}
        try:
            text = Path(self._token_file).read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise Unavailable(argv, f"no Slurm token: {self._token_file}: {error}") from None
        return {"SLURM_JWT": text.strip().removeprefix("SLURM_JWT=")}


def _mark() -> str:
    """A text that no user can have written into a name before this call."""
    return secrets.token_hex(8)


def _one_line(text: str) -> str:
    return folded(text)
