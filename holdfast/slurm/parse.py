"""Parse the output of scontrol, sinfo and sdiag. Pure.

Facts, seen on Slurm 24.11.5 and 26.05.5 (tests/data/slurm has recordings of both):

* A number in JSON is ``{"set": …, "infinite": …, "number": …}`` or plain, by release and field.
* Free text (reason, comment, extra, job name) may contain anything, including newlines and text that
  looks like another field or record. A text record that can be read in two ways is reported as ambiguous,
  never guessed: the caller queries that node again as JSON, which is unambiguous.
* With ``SLURM_TIME_FORMAT=%s`` every time in text output is in epoch seconds.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from holdfast.slurm.client import QueuedJob, RunningJob, SlurmJob, SlurmNode
from holdfast.slurm.hostlist import expand
from holdfast.vocabulary import NodeState, SlurmName

FIELD = "\x1f"
RECORD = "\x1e"
"""Separators for the output of ``sinfo``: control characters that no normal text contains."""

_ALIASES = {
    "INVAL": NodeState.INVALID_REG,
    "MAINT": NodeState.MAINTENANCE,
    "RESV": NodeState.RESERVED,
    "ALLOC": NodeState.ALLOCATED,
    "MIX": NodeState.MIXED,
    "COMP": NodeState.COMPLETING,
}
# Symbols that scontrol and sinfo may append to the base state (man sinfo, NODE STATE CODES).
_SIGNS = {
    "*": NodeState.NOT_RESPONDING,
    "~": NodeState.POWERED_DOWN,
    "#": NodeState.POWERING_UP,
    "!": NodeState.POWER_DOWN,
    "%": NodeState.POWERING_DOWN,
    "$": NodeState.MAINTENANCE,
    "@": NodeState.REBOOT_REQUESTED,
    "^": NodeState.REBOOT_ISSUED,
    "-": NodeState.PLANNED,
}
_YEAR_10000 = 253402300800
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:([0-9]+)")
_KNOWN = {state.value: state for state in NodeState} | _ALIASES


class ParseError(ValueError):
    """The output does not have the format of the supported Slurm releases."""


class NodesText(NamedTuple):
    """Nodes read from text; those in ``ambiguous`` have to be queried again as JSON."""

    nodes: list[SlurmNode]
    ambiguous: list[SlurmName]


def states(words: Iterable[str]) -> tuple[frozenset[NodeState], tuple[str, ...]]:
    """Base state and flags from words like ``IDLE``, ``drain``, ``DOWN*``; and the unknown words."""
    found: set[NodeState] = set()
    unknown: list[str] = []
    for word in words:
        name = word.strip().upper()
        while name and name[-1] in _SIGNS:
            found.add(_SIGNS[name[-1]])
            name = name[:-1]
        if name in _KNOWN:
            found.add(_KNOWN[name])
        elif name:
            unknown.append(name)
    return frozenset(found), tuple(unknown)


@functools.lru_cache(maxsize=1024)
def _states(text: str) -> tuple[frozenset[NodeState], tuple[str, ...]]:
    """Of a text like ``IDLE+CLOUD``. Many nodes have the same."""
    return states(text.split("+"))


@functools.lru_cache(maxsize=4096)
def _epoch(text: str | None) -> datetime | None:
    return epoch(text)


def epoch(seconds: Any) -> datetime | None:
    """A JSON or text time as UTC; ``None`` for unset, infinite, zero or a word."""
    number = _number(seconds)
    if number is None or not 0 < number < _YEAR_10000:
        return None
    return datetime.fromtimestamp(number, timezone.utc)


def _number(value: Any) -> int | None:
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _words(value: Any) -> list[str]:
    words = value if isinstance(value, list) else [value]
    return [word for word in words if isinstance(word, str)]


def _rows(text: str, key: str) -> list[Mapping[str, Any]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ParseError(f"not the JSON of {key}: {error}") from None
    return _rows_of(document, key)


def _rows_of(document: Any, key: str) -> list[Mapping[str, Any]]:
    try:
        rows = document[key]
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"not the JSON of {key}: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ParseError(f"not the JSON of {key}: not a list of objects")
    return rows


def nodes_json(text: str) -> list[SlurmNode]:
    """``scontrol show nodes --json``. An empty list proves nothing: see ``holdfast.slurm.cli``."""
    return [_node(row) for row in _rows(text, "nodes")]


def nodes_of(document: Any) -> list[SlurmNode]:
    """``nodes_json`` of a decoded document: slurmrestd's answer is that of ``scontrol --json``."""
    return [_node(row) for row in _rows_of(document, "nodes")]


def _node(row: Mapping[str, Any]) -> SlurmNode:
    known, unknown = states(_words(row.get("state")))
    return SlurmNode(
        name=SlurmName(_text(row.get("name"))),
        states=known,
        unknown_states=unknown,
        reason=_text(row.get("reason")),
        reason_user=_text(row.get("reason_set_by_user")),
        reason_at=epoch(row.get("reason_changed_at")),
        comment=_text(row.get("comment")),
        instance_id=_text(row.get("instance_id")),
        boot_at=epoch(row.get("boot_time")),
        slurmd_started_at=epoch(row.get("slurmd_start_time")),
        reservation=_text(row.get("reservation")),
        partitions=tuple(_words(row.get("partitions"))),
        cpus=_number(row.get("effective_cpus")) or _number(row.get("cpus")) or 0,
        gpus=sum(int(count) for count in _GPUS.findall(_text(row.get("gres")))),
    )


def job_json(text: str, job_id: int) -> SlurmJob | None:
    """``scontrol show job ID --json``: that job among the rows (an array has several), or None."""
    for row in _rows(text, "jobs"):
        if _number(row.get("job_id")) == job_id:
            return _job(row, job_id)
    return None


def _job(row: Mapping[str, Any], job_id: int) -> SlurmJob:
    return SlurmJob(
        job_id=job_id,
        name=_text(row.get("name")),
        user=_text(row.get("user_name")) or str(_number(row.get("user_id")) or ""),
        state="+".join(_words(row.get("job_state"))),
        state_reason=_text(row.get("state_reason")),
        restarts=_number(row.get("restart_cnt")) or 0,
        requeue=bool(row.get("requeue")),
        expedited="EXPEDITED_REQUEUE" in _words(row.get("flags")),
        nodes=_text(row.get("nodes")),
        batch_host=_text(row.get("batch_host")),
        exit_code=_exit_code(row.get("exit_code")),
        excluded=_text(row.get("excluded_nodes")),
        start_at=epoch(row.get("start_time")),
        end_at=epoch(row.get("end_time")),
        partition=_text(row.get("partition")),
        work_dir=_text(row.get("current_working_directory")),
        admin_comment=_text(row.get("admin_comment")),
        array_task=_array_task(row),
    )


def queue(text: str, mark: str) -> list[QueuedJob]:
    """The rows of ``commands.queue(mark)``. Users choose the names, which may contain line breaks and control
    characters. ``mark`` follows each separator: random, so that no name contains a row.
    """
    found = []
    for record in text.split(f"{RECORD}{mark}\n"):
        fields = record.split(f"{FIELD}{mark}", 5)
        if len(fields) == 6 and fields[3].isdecimal():
            job, state, reason, restarts, user, name = fields
            found.append(
                QueuedJob(
                    job=job,
                    state=state,
                    state_reason=reason,
                    restarts=int(restarts),
                    user=user,
                    name=name,
                )
            )
    return found


def _array_task(row: Mapping[str, Any]) -> str:
    """``ARRAY_TASK`` or ``LEADER+OFFSET`` as scontrol takes them; empty for any other job."""
    array, task = _number(row.get("array_job_id")), _number(row.get("array_task_id"))
    if array and task is not None:
        return f"{array}_{task}"
    leader, offset = _number(row.get("het_job_id")), _number(row.get("het_job_offset"))
    return f"{leader}+{offset}" if leader and offset is not None else ""


def _exit_code(value: Any) -> str:
    """``CODE:SIGNAL`` as scontrol prints it in text."""
    if not isinstance(value, Mapping):
        return _text(value)
    signal = value.get("signal")
    number = (
        _number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, Mapping) else 0
    )
    return f"{_number(value.get('return_code')) or 0}:{number or 0}"


# One record of `scontrol show nodes -o`, fixed part first. OS= may have blanks, never " State=".
_HEAD = re.compile(
    r"NodeName=(?P<name>\S+) .*? State=(?P<state>\S+) .*? BootTime=(?P<boot>\S+)"
    r"(?: SlurmdStartTime=(?P<slurmd>\S+))? .*? AveWatts=\S+(?P<tail>.*)"
)
_TAIL_KEYS = ("Reason", "Comment", "Extra", "InstanceId", "InstanceType")
_TAIL = re.compile(
    r"(?: Reason=(?P<Reason>.*) \[(?P<user>\S+)@(?P<at>\w+)\])?"
    r"(?: Comment=(?P<Comment>.*?))?"
    r"(?: Extra=(?P<Extra>.*?))?"
    r"(?: InstanceId=(?P<InstanceId>\S+))?"
    r"(?: InstanceType=(?P<InstanceType>\S+))?"
)
_TAIL_KEY = re.compile(rf" ({'|'.join(_TAIL_KEYS)})=")
_STAMP = re.compile(r" \[\S+@\w+\]")


def nodes_text(text: str) -> NodesText:
    """``scontrol show nodes -o`` under ``SLURM_TIME_FORMAT=%s``.

    Raises ``ParseError`` when the output as a whole is something else. A node is ambiguous when its
    record spans lines, or a free text contains something that looks like a field.
    """
    found: dict[str, SlurmNode] = {}
    ambiguous: set[str] = set()
    last = ""
    for line in text.splitlines():
        match = _HEAD.fullmatch(line) if line.startswith("NodeName=") else None
        if match is None:
            if not line.strip():
                continue
            if not last:
                raise ParseError(f"not a node record: {line[:80]!r}")
            ambiguous.add(last)
            continue
        last = match["name"]
        node = _node_text(match)
        if node is None or last in found or last in ambiguous:
            ambiguous.add(last)
        else:
            found[last] = node
    nodes = [node for name, node in found.items() if name not in ambiguous]
    return NodesText(nodes, sorted(SlurmName(name) for name in ambiguous))


def _node_text(match: re.Match[str]) -> SlurmNode | None:
    tail = " " + match["tail"].strip() if match["tail"].strip() else ""
    keys = [key[1] for key in _TAIL_KEY.finditer(tail)]
    parts = _TAIL.fullmatch(tail)
    stamps = len(_STAMP.findall(tail))
    if parts is None or len(keys) != len(set(keys)) or stamps != ("Reason" in keys):
        return None
    known, unknown = _states(match["state"])
    return SlurmNode(
        name=SlurmName(match["name"]),
        states=known,
        unknown_states=unknown,
        reason=parts["Reason"] or "",
        reason_user=parts["user"] or "",
        reason_at=_epoch(parts["at"]),
        comment=parts["Comment"] or "",
        instance_id=parts["InstanceId"] or "",
        boot_at=_epoch(match["boot"]),
        slurmd_started_at=_epoch(match["slurmd"]),
    )


def nodes_grouped(text: str) -> list[SlurmNode]:
    """``sinfo`` grouped: state, reason, user, time, comment and hostlist of each group of nodes.

    Raises ``ParseError`` when a record does not have exactly these six fields or a node is listed twice.
    """
    return GroupedNodes().read(text)


class GroupedNodes:
    """The output of ``sinfo`` grouped, again and again. A group that is in the previous output too is not
    parsed again: its nodes are the same objects, and so is the list if the output is the same.
    """

    def __init__(self) -> None:
        self._text = ""
        self._groups: dict[str, list[SlurmNode]] = {}
        self._nodes: list[SlurmNode] = []

    def read(self, text: str) -> list[SlurmNode]:
        """All nodes. Raises as ``nodes_grouped``."""
        if text == self._text and self._nodes:
            return self._nodes
        old = {node.name: node for node in self._nodes}
        groups: dict[str, list[SlurmNode]] = {}
        names: set[str] = set()
        nodes: list[SlurmNode] = []
        for record in text.split(f"{RECORD}\n"):
            if not record:
                continue
            group = self._groups.get(record)
            if group is None:
                group = [_known(node, old) for node in _group(record)]
            groups[record] = group
            nodes += group
            names.update(node.name for node in group)
            if len(names) != len(nodes):
                raise ParseError(f"a node twice in the output of sinfo: {record[:80]!r}")
        self._text, self._groups, self._nodes = text, groups, nodes
        return nodes


def _known(node: SlurmNode, old: Mapping[SlurmName, SlurmNode]) -> SlurmNode:
    before = old.get(node.name)
    return before if before is not None and before == node else node


def _group(record: str) -> list[SlurmNode]:
    fields = record.split(FIELD)
    if len(fields) != 6 or RECORD in record:
        raise ParseError(f"expected 6 fields of sinfo, got {len(fields)}: {record[:80]!r}")
    state, reason, user, at, comment, hosts = fields
    known, unknown = _states(state)
    # Without a time, sinfo prints "none" for no reason; with a time, somebody typed it.
    when = epoch(at)
    return [
        SlurmNode(
            name=SlurmName(name),
            states=known,
            unknown_states=unknown,
            reason="" if when is None and reason == "none" else reason,
            reason_user="" if when is None else user,
            reason_at=when,
            comment="" if comment == "(null)" else comment,
        )
        for name in expand(hosts)
    ]


class NodeChanges(NamedTuple):
    """How many requests to change a node slurmctld has counted, at a time of its clock. The count starts
    again at midnight (UTC) and with each restart."""

    at: datetime
    counted_since: int
    changes: int


_COUNTED_SINCE = re.compile(r"^Data since\s.*\((\d+)\)", re.MULTILINE)
_CHANGES = re.compile(r"^\s*REQUEST_UPDATE_NODE\s+\(\s*\d+\)\s+count:(\d+)", re.MULTILINE)


def node_changes(text: str) -> NodeChanges:
    """From ``sdiag``: the requests to change a node, from any user and for any node."""
    since, changes = _COUNTED_SINCE.search(text), _CHANGES.search(text)
    if since is None:
        raise ParseError(f'no "Data since" in the output of sdiag: {text[:80]!r}')
    return NodeChanges(clock(text), int(since[1]), int(changes[1]) if changes else 0)


def running_jobs(text: str) -> list[RunningJob]:
    """The output of ``commands.running_jobs``."""
    jobs = []
    for line in text.splitlines():
        number, host, start = [*line.split(), "", "", ""][:3]
        start_at = epoch(start) if start.isdigit() else None
        if not number.isdigit() or start_at is None:
            raise ParseError(f"not a job of squeue: {line[:80]!r}")
        jobs.append(RunningJob(job_id=int(number), batch_host=host, start_at=start_at))
    return jobs


_CLOCK = re.compile(r"^sdiag output at .*\((\d{9,12})\)", re.MULTILINE)


def clock(text: str) -> datetime:
    """slurmctld's time from the head of ``sdiag``."""
    match = _CLOCK.search(text)
    at = epoch(match[1]) if match else None
    if at is None:
        raise ParseError(f"no time in the output of sdiag: {text[:80]!r}")
    return at


_BOOT_TIME = re.compile(r"^BOOT_TIME\s*= (\d{9,12})$", re.MULTILINE)


def slurmctld_at(text: str) -> datetime:
    """slurmctld's start time from ``scontrol show config``: BOOT_TIME, which is not the machine's."""
    match = _BOOT_TIME.search(text)
    at = epoch(match[1]) if match else None
    if at is None:
        raise ParseError("no BOOT_TIME in the output of scontrol show config")
    return at
