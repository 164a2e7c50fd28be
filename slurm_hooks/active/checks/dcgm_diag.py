"""NVIDIA's own diagnostics, ``dcgmi diag -r LEVEL -j``, levels 1 (seconds) to 4 (hours).

Errors in the node's configuration (severity 5, CONFIG, such as persistence mode off) prove nothing
about its hardware, and a skipped test proves nothing either: neither counts as passed. This reads
the JSON of DCGM 3 (``DCGM GPU Diagnostic``) and DCGM 4 (``DCGM Diagnostic``).

Sources: NVIDIA DCGM user guide, "DCGM Diagnostics" (levels, error severities); DCGM's changelog for
4.0; recorded outputs in tests/data/active.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.config.bounds import within
from slurm_hooks.active import ActiveCheck
from slurm_hooks.active.program import Node, Ran, find, unfinished
from slurm_hooks.active.result import (
    CheckOutcome,
    Judged,
    Measurement,
    could_not_run,
    judged_by,
    one_line,
)

_CONFIG_SEVERITY = 5
"""DCGM_ERROR_CONFIG: "this error can be resolved by changing the configuration"."""
_OPTIONAL = ("eud", "software error")
"""Tests that DCGM skips unless a site enables them (issue 139 of NVIDIA/DCGM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Time limits of the four levels. DCGM's guide: seconds, 2 minutes, 30 minutes, 1 to 2 hours."""

    r1_s: float = 300.0
    """Time limit of `dcgm_diag_r1`."""
    r2_s: float = 900.0
    """Time limit of `dcgm_diag_r2`."""
    r3_s: float = 3600.0
    """Time limit of `dcgm_diag_r3`."""
    r4_s: float = 10800.0
    """Time limit of `dcgm_diag_r4`."""

    def __post_init__(self) -> None:
        limit_s = (10, 86400)
        within(self, r1_s=limit_s, r2_s=limit_s, r3_s=limit_s, r4_s=limit_s)


def time_limit_s(limits: Limits, level: int) -> float:
    return (limits.r1_s, limits.r2_s, limits.r3_s, limits.r4_s)[level - 1]


def command(node: Node, limits: Limits, level: int) -> list[str]:  # noqa: ARG001 - as every check
    return [find("dcgmi"), "diag", "-r", str(level), "-j"]


def read(ran: Ran, node: Node, limits: Limits, level: int) -> Judged:  # noqa: ARG001
    early = unfinished(ran, f"dcgmi diag -r {level}")
    if early is not None:
        return early
    try:
        # dcgmi may print warnings before its JSON (CUDA_VISIBLE_DEVICES is set, …).
        report = json.loads(ran.out[ran.out.index("{") :])
        tests = list(_tests(report))
    except (ValueError, KeyError, TypeError, AttributeError):
        return could_not_run(f"dcgmi exited with {ran.status}: {one_line(ran.out + ran.err)}")
    if not tests:
        return could_not_run(f"dcgmi exited with {ran.status} and ran no test: {one_line(ran.err)}")
    return _judge(tests, ran)


def _judge(tests: list[Measurement], ran: Ran) -> Judged:
    judged = judged_by(tests, passed=f"{sum(test.ok is True for test in tests)} tests passed")
    if judged.verdict is not CheckOutcome.PASSED:
        return judged
    skipped = [
        test for test in tests if test.ok is None and not test.subject.lower().startswith(_OPTIONAL)
    ]
    if skipped:
        what = "; ".join(f"{test.subject}: {test.value}" for test in skipped[:3])
        return could_not_run(f"not all tests ran: {what}", tests)
    if ran.status:
        return could_not_run(f"every test passed, but dcgmi exited with {ran.status}", tests)
    return judged


def _tests(report: Mapping[str, Any]) -> Iterator[Measurement]:
    root = report.get("DCGM Diagnostic") or report.get("DCGM GPU Diagnostic") or {}
    for category in root.get("test_categories") or ():
        for test in category.get("tests") or ():
            for result in test.get("results") or ():
                yield _reading(str(test.get("name") or "?"), result)


def _reading(test: str, result: Mapping[str, Any]) -> Measurement:
    status = str(result.get("status") or "no status")
    gpu = result.get("entity_id", result.get("gpu_ids", result.get("gpu_id")))
    subject = test if gpu is None else f"{test} GPU {gpu}"
    why = [_warning(warning) for warning in _list(result.get("warnings"))]
    only_config = bool(why) and all(severity == _CONFIG_SEVERITY for severity, _ in why)
    ok = {"pass": True, "fail": False}.get(status.lower())
    value = status
    if ok is not True and why:
        value = f"{status}: {one_line(' '.join(text for _, text in why), 200)}"
    if ok is False and only_config:
        ok, value = None, f"not judged, {value}"
    return Measurement(section="DCGM", subject=subject, value=value, limit="Pass", ok=ok)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else ([] if value is None else [value])


def _warning(warning: Any) -> tuple[int | None, str]:
    """(severity, text) of DCGM 4's object or DCGM 3's plain text."""
    if isinstance(warning, Mapping):
        return warning.get("error_severity"), str(warning.get("warning") or warning)
    return None, str(warning)


CHECK = ActiveCheck(
    needs="dcgmi in PATH, and a running nv-hostengine (nvidia-dcgm.service)",
    limits=Limits,
    time_limit_s=time_limit_s,
    command=command,
    read=read,
)
