"""DCGM's background health watches: ``dcgmi health -c -j``, where DCGM is installed.

It changes nothing: if the watches are off they stay off, and nothing is known about the GPUs. The
JSON is a tree of ``value``, ``children`` and ``overflow`` (lines of text) below ``body``, as dcgmi
of DCGM 2 to 4 prints it (NVIDIA/DCGM, dcgmi/Health.cpp and DcgmiOutput.h).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.adapters.command import PATH, complete
from holdfast.errors import ProbeError
from slurm_hooks.facts import DcgmFacts, DcgmIncident

_OVERALL = "Overall Health"
HEALTHY, WARNING, FAILURE = "Healthy", "Warning", "Failure"


def open_probe(timeout_s: float, path: str = PATH) -> Callable[[object], Iterator[DcgmFacts]]:
    """Answers with the facts, or with nothing if dcgmi is not installed. Raises ProbeError if its
    output is no health report.
    """
    program = shutil.which("dcgmi", path=path)

    def serve(_request: object) -> Iterator[DcgmFacts]:
        if program is None:
            return
        done = complete([program, "health", "-c", "-j"], timeout_s=timeout_s)
        yield parse(done.out or done.err)

    return serve


def parse(text: str) -> DcgmFacts:
    """The report. Raises ProbeError for anything else, such as ``Error: Health watches not
    enabled``.
    """
    start = text.find("{")
    try:
        report = json.loads(text[start:]) if start >= 0 else None
    except ValueError:
        report = None
    body = report.get("body") if isinstance(report, dict) else None
    overall = _value(body.get(_OVERALL)) if isinstance(body, dict) else ""
    if not isinstance(body, dict) or overall not in (HEALTHY, WARNING, FAILURE):
        first = next(iter(text.strip().splitlines()), "no output")
        raise ProbeError(f"dcgmi health: {first[:200]}")
    incidents = [
        incident
        for entity, group in body.items()
        if entity != _OVERALL
        for incident in _incidents(entity, group)
    ]
    return DcgmFacts(overall=overall, incidents=tuple(incidents))


def _incidents(entity: str, group: object) -> Iterator[DcgmIncident]:
    for entity_id, node in _children(group):
        for system, error in _children(dict(_children(node)).get("Errors")):
            lines = error.get("overflow") if isinstance(error, dict) else None
            yield DcgmIncident(
                entity=entity,
                entity_id=entity_id,
                system=system,
                health=_value(error),
                text=" ".join(str(line) for line in lines) if isinstance(lines, list) else "",
            )


def _children(node: object) -> Iterator[tuple[str, Any]]:
    found = node.get("children") if isinstance(node, Mapping) else None
    if isinstance(found, dict):
        yield from found.items()


def _value(node: object) -> str:
    found = node.get("value") if isinstance(node, Mapping) else None
    return found if isinstance(found, str) else ""
