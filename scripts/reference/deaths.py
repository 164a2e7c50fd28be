"""docs/reference/deaths.md: the ways for a job to die that ``scripts/bench deaths`` causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure.deaths import nodes, people, program
from measure.deaths.catalogue import DEATHS
from measure.deaths.death import Death

_HEAD = """\
# {count} ways for a job to die

<!-- Written by scripts/docs_reference from scripts/measure/deaths. Edit those, not this page. -->

What `holdfast run` does in each case. `scripts/bench deaths --slurm RELEASE` causes all of them on
real Slurm and compares what followed with this table: how each attempt ended, the job's last state,
what counts against it, and its nodes. It prints the results; with `--page` it writes them to
[benchmarks.md](../benchmarks.md). Times there are medians; the goal for 26.05 counts jobs of
`--requeue=expedite` only. The rules are in [restarts.md](restarts.md).

`attempts`: how each attempt of the job ends. `restart`, `requeue`, `hold` and `fail` are decisions of
Holdfast; `others`: a person or Slurm has ended it; `lost`: its launcher was killed; `done`: it
succeeded. `counts`: how many attempts count against the job.
"""

_PARTS = (
    ("The program", program.DEATHS),
    ("A person, or Slurm", people.DEATHS),
    ("A node, or what runs the job there", nodes.DEATHS),
)


def deaths_page() -> str:
    """The page."""
    lines = [_HEAD.format(count=len(DEATHS))]
    for title, deaths in _PARTS:
        lines += [f"## {title}", "", *_table(deaths), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(deaths: Sequence[Death]) -> Iterator[str]:
    yield "| death | what happens | what must follow | attempts | state | counts |"
    yield "| -- | -- | -- | -- | -- | -- |"
    for death in deaths:
        expect = death.expect
        ends = ", ".join(expect.ends)
        state = "held" if expect.state == "HELD" else expect.state
        cells = (f"`{death.name}`", death.how, death.then, ends, state, str(expect.charged))
        yield f"| {' | '.join(cells)} |"
