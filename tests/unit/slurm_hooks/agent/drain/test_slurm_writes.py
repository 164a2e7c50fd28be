"""The order of a step's writes, and records that cannot be written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.schema import ClusterConfig, PathsConfig
from holdfast.errors import Unavailable
from holdfast.policy.ownership import Undrained
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain import record as records
from tests.unit.slurm_hooks.agent.drain.fake_slurm import (
    ME,
    NEXT_BOOT,
    Bench,
    clean,
    fault,
)


def without_disk(bench: Bench, tmp_path: Path) -> Bench:
    (tmp_path / "no-folder").write_text("a file where the state folder should be")
    paths = PathsConfig(run=tmp_path / "run", state=tmp_path / "no-folder")
    return replace(bench, config=replace(bench.config, cluster=ClusterConfig(paths=paths)))


def test_a_disk_that_cannot_be_written_stops_no_drain_and_no_return(
    bench: Bench, tmp_path: Path
) -> None:
    bench = without_disk(bench, tmp_path)
    outcome = bench.run(fault())
    assert bench.slurm.mine.drained_flag
    assert "Not a directory" in outcome.unwritten or "File exists" in outcome.unwritten
    assert outcome.drained is not None
    assert bench.records.load() == (outcome.drained, ""), "the next agent knows it"
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag


def test_the_record_is_written_once_the_disk_works_again(bench: Bench, tmp_path: Path) -> None:
    broken = without_disk(bench, tmp_path)
    drained = broken.run(fault()).drained
    (tmp_path / "no-folder").unlink()
    written = broken.run(fault())
    assert written.unwritten == ""
    assert not broken.records.unwritten
    assert written.drained is not None
    assert drained is not None
    assert written.drained.record.at == drained.record.at
    assert records.load(tmp_path / "no-folder/drain.json") == (written.drained, "")


def test_the_return_is_recorded_before_the_undrain(bench: Bench) -> None:
    bench.run(fault())
    meant = bench.slurm.mine
    bench.boot_id = NEXT_BOOT

    def dies(_names: list[SlurmName]) -> None:
        raise RuntimeError("killed")

    bench.slurm.undrain = dies  # type: ignore[method-assign,assignment]
    with pytest.raises(RuntimeError, match="killed"):
        bench.run(clean())
    kept, problem = bench.records.load_return()
    assert problem == ""
    assert kept is not None
    assert (kept.reason, kept.since, kept.changes) == (meant.reason, meant.reason_at, None)
    assert kept.looked_at <= bench.slurm.now <= kept.until


def test_a_return_without_other_changes_is_known_to_be_the_only_change(bench: Bench) -> None:
    bench.run(fault())
    bench.boot_id = NEXT_BOOT
    undrained = bench.run(clean()).undrained
    assert undrained is not None
    assert undrained.alone
    assert bench.records.load_return() == (undrained, "")


def test_a_change_by_another_user_at_the_moment_of_the_return_is_counted(bench: Bench) -> None:
    bench.run(fault())
    bench.boot_id = NEXT_BOOT
    undrain = bench.slurm.undrain

    def meets(names: list[SlurmName]) -> None:
        bench.slurm._drain("worker-3", "ticket", "alice")
        undrain(names)

    bench.slurm.undrain = meets  # type: ignore[method-assign]
    undrained = bench.run(clean()).undrained
    assert undrained is not None
    assert (undrained.changes, undrained.alone) == (2, False)


def test_an_unanswered_question_stays_on_disk_at_the_next_return(bench: Bench) -> None:
    bench.run(fault())
    bench.boot_id = NEXT_BOOT
    since = bench.slurm.now
    asked = Undrained(reason="r", since=since, looked_at=since, until=since, changes=2)
    bench.records.save_return(asked)
    drained, _ = bench.records.load()
    step = bench.step()
    undrained = step.run(clean(), drained, "", bench.records.load_ended(), asked).undrained
    assert undrained is not None
    assert undrained.alone
    assert bench.records.load_return() == (asked, "")


def test_a_drain_that_changed_since_the_decision_is_not_ended(bench: Bench) -> None:
    bench.run(fault())
    bench.boot_id = NEXT_BOOT
    count = bench.slurm.node_changes

    def meets() -> NodeChanges:
        found = count()
        bench.slurm._drain(ME, "ticket 9", "alice")
        return found

    bench.slurm.node_changes = meets  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="changed"):
        bench.run(clean())
    assert bench.slurm.mine.reason == "ticket 9"
