"""The memory on disk: what a restarted agent goes on from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.adapters.statefile import read_state, write_state
from holdfast.findings import Finding
from holdfast.vocabulary import Action, Severity
from slurm_hooks.agent.memory import GpuSeen, Memory, PortSeen, Streak
from slurm_hooks.facts import XidEvent

VERSION = 1


def path_in(state: Path) -> Path:
    return state / "agent.json"


def save(path: Path, memory: Memory) -> None:
    """Raises OSError where the state folder cannot be written."""
    write_state(path, dataclasses.asdict(memory), version=VERSION)


def load(path: Path) -> tuple[Memory, str]:
    """(memory, problem). A file that is missing or unreadable is an empty memory, no error."""
    said, problem = read_state(path, version=VERSION)
    if said is None:
        return Memory(), problem or ""
    try:
        return _memory(said), ""
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return Memory(), f"{path}: {type(error).__name__}: {error}; going on without it"


def _memory(said: Mapping[str, Any]) -> Memory:
    return Memory(
        boot_id=str(said["boot_id"]),
        kmsg_seq=said["kmsg_seq"],
        lost_records=int(said["lost_records"]),
        xids=tuple(XidEvent(**event) for event in said["xids"]),
        gpus={int(index): GpuSeen(**gpu) for index, gpu in said["gpus"].items()},
        ports={
            name: PortSeen(**{**port, "downs_at": tuple(port["downs_at"])})
            for name, port in said["ports"].items()
        },
        blind={str(probe): int(passes) for probe, passes in said["blind"].items()},
        streaks={key: _streak(streak) for key, streak in said["streaks"].items()},
    )


def _streak(said: Mapping[str, Any]) -> Streak:
    return Streak(**{**said, "finding": finding(said["finding"])})


def finding(said: Mapping[str, Any]) -> Finding:
    """A finding from its JSON. Raises ValueError, KeyError or TypeError."""
    return Finding(
        **{**said, "severity": Severity(said["severity"]), "action": Action(said["action"])}
    )
