"""What the reason of a drained node tells running jobs."""

from __future__ import annotations

import pytest

from holdfast.reason import Reason
from holdfast.records.leave import Leave, leave_of, pairs


@pytest.mark.parametrize(
    ("until", "read"),
    [
        (None, Leave(None)),
        (1_795_176_000.0, Leave(1_795_176_000.0)),
        (1_795_176_004.9, Leave(1_795_176_000.0)),
        (-3.0, Leave(0.0)),
        (253_402_300_799.0, Leave(253_402_300_795.0)),
    ],
)
def test_what_is_written_is_read(until: float | None, read: Leave) -> None:
    text = str(Reason("KUBE_RULE", "x", {"rule": "spot-aws", **pairs(until), "at": "1"}))
    reason = Reason.parse(f"{text} : Not responding")
    assert reason is not None
    assert leave_of(reason) == read


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("KUBE_RULE", {"rule": "x"}),
        ("KUBE_RULE", {"jobs": "stay", "until": "5"}),
        ("KUBE_CORDON", {"jobs": "leave", "until": "5"}),
        ("XID79", {"jobs": "leave"}),
    ],
)
def test_of_all_other_nodes_jobs_stay(code: str, values: dict[str, str]) -> None:
    assert leave_of(Reason(code, "x", values)) is None


@pytest.mark.parametrize("until", ["soon", "-5", "1e9", "٣", "9" * 12, "9" * 13])
def test_a_time_that_is_none_is_not_known(until: str) -> None:
    reason = Reason("KUBE_RULE", "x", {"jobs": "leave", "until": "5"})
    object.__setattr__(reason, "pairs", {"jobs": "leave", "until": until})
    assert leave_of(reason) == Leave(None)
