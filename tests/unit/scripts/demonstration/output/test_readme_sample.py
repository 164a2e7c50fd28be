"""The README's sample is what a run of the demo prints: the same lines, with other numbers.

``tests/e2e/test_demo.py`` compares the same sample with a run.
"""

from __future__ import annotations

from demonstration.output.report import Outcome, stage_lines
from demonstration.scenario import Scenario
from demonstration.stages import CATALOGUE, Seen

from tests.readme_sample import masked, sample


def test_the_sample_has_a_line_for_every_stage_and_no_other() -> None:
    scenario = Scenario(job=None)  # type: ignore[arg-type]
    for number, key in enumerate(CATALOGUE):
        at_s = 100.0 + number
        scenario.seen[key] = Seen(key=key, at_s=at_s, source="source", evidence="")
    run = Outcome(slurm="", ranks_per_node=4, scenario=scenario, baseline=None, digests={})
    head, *rows = stage_lines(run)
    shown = sample()
    assert shown[0] == head
    assert sorted(line[13:48] for line in shown[1:]) == sorted(row[13:48] for row in rows)


def test_masked_lines_differ_only_where_the_text_differs() -> None:
    one = "     +0.14 s   node drained  scontrol  holdfast:XID79: GPU 3 boot=4210da04 gpu=3"
    two = "    +10.20 s   node drained  scontrol  holdfast:XID79: GPU 1 boot=ffdada0f gpu=1"
    assert masked(one) == masked(two)
    assert masked(one) != masked(two.replace("drained", "downed"))
