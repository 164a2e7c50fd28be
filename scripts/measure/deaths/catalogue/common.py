"""What several deaths have in common."""

from __future__ import annotations

from measure.deaths.death import Expect

RESTARTED = Expect(ends=("restart", "done"), charged=1)
OUTAGE = Expect(ends=("restart", "done"), because="an outage, no node is to blame")
HELD = Expect(ends=("restart", "hold"), state="HELD", charged=2, because="the same failure 2 times")
FAILED = Expect(ends=("fail",), state="FAILED", charged=1, because="user error")
AT_ONCE = Expect(ends=("hold",), state="HELD", charged=1, because="on most ranks")
HELD_AT_ONCE = "held for its owner at once: another attempt would tell nothing new"
ELSEWHERE = "requeued on other nodes; counts against nothing"
MOVED = Expect(ends=("requeue", "done"), avoids=True, because="bad node")
WAITS = "exec sleep 120"
HERE = "restarted at once on the same nodes"
AFTER_15_S = "restarted on the same nodes after 15 s; counts as an outage, not against the job"
TWICE = "restarted once, then held for its owner"
ECC_OF_RANK_3 = """\
[ $R = 3 ] || exec sleep 120
say '[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered'
exit 1"""


ALL_UP = """\
for rank in 0 1; do while [ ! -e "$F.up.$A.$rank" ]; do sleep 0.05; done; done
"""
"""Both tasks of a job of one node go on together."""


def python(code: str) -> str:
    return f"exec python3 -c '{code}'"


def prints(line: str, code: int = 1) -> str:
    """Task 1 prints the line and fails; the other one waits for it."""
    return f"[ $R = 1 ] || exec sleep 120\nsay '{line}'\nexit {code}"
