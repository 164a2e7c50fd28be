"""Nodes and jobs in the JSON of ``scontrol``, which slurmrestd answers too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from holdfast.slurm.client import SlurmJob, SlurmNode
from holdfast.slurm.parse.values import ParseError, epoch, number, states, text, words
from holdfast.vocabulary import SlurmName

_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:([0-9]+)")


def nodes_json(document: str) -> list[SlurmNode]:
    """``scontrol show nodes --json``. An empty list proves nothing: see ``holdfast.slurm.cli``."""
    return [_node(row) for row in _rows(document, "nodes")]


def nodes_of(document: Any) -> list[SlurmNode]:
    """``nodes_json`` of a decoded document: slurmrestd's answer is that of ``scontrol --json``."""
    return [_node(row) for row in _rows_of(document, "nodes")]


def _node(row: Mapping[str, Any]) -> SlurmNode:
    known, unknown = states(words(row.get("state")))
    return SlurmNode(
        name=SlurmName(text(row.get("name"))),
        states=known,
        unknown_states=unknown,
        reason=text(row.get("reason")),
        reason_user=text(row.get("reason_set_by_user")),
        reason_at=epoch(row.get("reason_changed_at")),
        comment=text(row.get("comment")),
        instance_id=text(row.get("instance_id")),
        boot_at=epoch(row.get("boot_time")),
        slurmd_started_at=epoch(row.get("slurmd_start_time")),
        reservation=text(row.get("reservation")),
        partitions=tuple(words(row.get("partitions"))),
        cpus=number(row.get("effective_cpus")) or number(row.get("cpus")) or 0,
        gpus=sum(int(count) for count in _GPUS.findall(text(row.get("gres")))),
        address=text(row.get("address")),
        port=number(row.get("port")) or 0,
    )


def job_json(document: str, job_id: int) -> SlurmJob | None:
    """``scontrol show job ID --json``: that job among the rows (an array has several), or None."""
    for row in _rows(document, "jobs"):
        if number(row.get("job_id")) == job_id:
            return _job(row, job_id)
    return None


def _job(row: Mapping[str, Any], job_id: int) -> SlurmJob:
    return SlurmJob(
        job_id=job_id,
        name=text(row.get("name")),
        user=text(row.get("user_name")) or str(number(row.get("user_id")) or ""),
        state="+".join(words(row.get("job_state"))),
        state_reason=text(row.get("state_reason")),
        restarts=number(row.get("restart_cnt")) or 0,
        requeue=bool(row.get("requeue")),
        expedited="EXPEDITED_REQUEUE" in words(row.get("flags")),
        nodes=text(row.get("nodes")),
        batch_host=text(row.get("batch_host")),
        exit_code=_exit_code(row.get("exit_code")),
        excluded=text(row.get("excluded_nodes")),
        required=text(row.get("required_nodes")),
        start_at=epoch(row.get("start_time")),
        end_at=epoch(row.get("end_time")),
        partition=text(row.get("partition")),
        work_dir=text(row.get("current_working_directory")),
        admin_comment=text(row.get("admin_comment")),
        array_task=_array_task(row),
    )


def _array_task(row: Mapping[str, Any]) -> str:
    """``ARRAY_TASK`` or ``LEADER+OFFSET`` as scontrol takes them; empty for any other job."""
    array, task = number(row.get("array_job_id")), number(row.get("array_task_id"))
    if array and task is not None:
        return f"{array}_{task}"
    leader, offset = number(row.get("het_job_id")), number(row.get("het_job_offset"))
    return f"{leader}+{offset}" if leader and offset is not None else ""


def _exit_code(value: Any) -> str:
    """``CODE:SIGNAL`` as scontrol prints it in text."""
    if not isinstance(value, Mapping):
        return text(value)
    signal = value.get("signal")
    signal_id = (
        number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, Mapping) else 0
    )
    return f"{number(value.get('return_code')) or 0}:{signal_id or 0}"


def _rows(document: str, key: str) -> list[Mapping[str, Any]]:
    try:
        decoded = json.loads(document)
    except ValueError as error:
        raise ParseError(f"not the JSON of {key}: {error}") from None
    return _rows_of(decoded, key)


def _rows_of(document: Any, key: str) -> list[Mapping[str, Any]]:
    try:
        rows = document[key]
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"not the JSON of {key}: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ParseError(f"not the JSON of {key}: not a list of objects")
    return rows
