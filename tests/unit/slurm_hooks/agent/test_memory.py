"""The agent's memory does not grow with its passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_LENGTH = 18
_PASSES = f"""
import sys
from slurm_hooks.agent.memory import PASSES, Memory

memory = Memory()
for number in range(2 * PASSES):
    made = [tuple(n for n in range({_LENGTH})) for _ in range(100)]
    del made
    {{}}
sys._debugmallocstats()
"""


def _free_tuples(each_pass: str) -> int:
    """How many tuples of that length Python keeps for later, after passes that each free a hundred."""
    done = subprocess.run(
        [sys.executable, "-c", _PASSES.format(each_pass)],
        cwd=Path(__file__).parents[4],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if f"{_LENGTH}-sized PyTuple" in line]
    return int(lines[0].split()[0])


def test_freed_tuples_do_not_pile_up() -> None:
    assert _free_tuples("pass") >= 1900, "what happens without it"
    assert _free_tuples("memory.passed()") <= 200
