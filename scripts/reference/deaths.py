"""docs/reference/deaths.md: the ways for a job to die that ``scripts/bench deaths`` causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure.deaths.catalogue import DEATHS, PARTS
from measure.deaths.death import Death
from measure.deaths.decision_table import ROWS

_HEAD = """\
# {count} ways for a job to die

<!-- Written by scripts/docs_reference from scripts/measure/deaths. Edit those, not this page. -->

What `holdfast run` does in each case. `scripts/bench deaths --slurm RELEASE` causes all of them on
real Slurm and compares what followed with this table: how each attempt ended, the job's last state,
what counts against it, and its nodes. It prints the results; with `--page` it writes them to
[benchmarks.md](../benchmarks.md); `--only NAME,NAME` causes some of them. Times there are medians;
the goal for 26.05 counts jobs of `--requeue=expedite` only. The rules are in
[restarts.md](restarts.md).

`attempts`: how each attempt of the job ends. `restart`, `requeue`, `hold` and `fail` are decisions
of Holdfast; `others`: a person or Slurm has ended it; `lost`: its launcher was killed; `done`: it
succeeded. `counts`: how many attempts count against the job.
"""

_ROWS_HEAD = """\
## The decision table

The rules follow a table of 23 rows from a survey of ByteRobust, NVRx, DLRover and others. The first
row that matches decides. These are its rows, what Holdfast does, and the deaths above (or
end-to-end tests) that check it on real Slurm.
"""


def deaths_page() -> str:
    """The page."""
    lines = [_HEAD.format(count=len(DEATHS))]
    for title, deaths in PARTS:
        lines += [f"## {title}", "", *_table(deaths), ""]
    lines += [_ROWS_HEAD, *_rows(), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _rows() -> Iterator[str]:
    yield "| row | evidence | what follows | checked by |"
    yield "| -- | -- | -- | -- |"
    for row in ROWS:
        tests = (
            f"[{test.partition('::')[0]}](../../tests/e2e/{test.partition('::')[0]})"
            for test in row.tests
        )
        checks = ", ".join([*(f"`{name}`" for name in row.deaths), *tests])
        yield f"| {row.number} | {row.evidence} | {row.then} | {checks} |"


def _table(deaths: Sequence[Death]) -> Iterator[str]:
    yield "| death | what happens | what must follow | attempts | state | counts |"
    yield "| -- | -- | -- | -- | -- | -- |"
    for death in deaths:
        expect = death.expect
        ends = ", ".join(expect.ends)
        state = "held" if expect.state == "HELD" else expect.state
        cells = (f"`{death.name}`", death.how, death.then, ends, state, str(expect.charged))
        yield f"| {' | '.join(cells)} |"
