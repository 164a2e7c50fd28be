"""The journal survives crashes, full disks and reused job ids."""

from __future__ import annotations

from pathlib import Path

from holdfast.records.job_journal import attempts, path_for
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.past_attempts import (
    evidence_on_checkpoints,
    lost_launchers,
    past,
)


def _journal(folder: Path, **run: float) -> Journal:
    restarts, start = int(run.get("restarts", 0)), run.get("job_start", 10.0)
    return Journal(path_for(folder, 7), lambda: 1.0, restarts=restarts, job_start=start)


def _attempt(journal: Journal, number: int, **facts: object) -> None:
    """Writes one attempt's events. ``step``/``path``: resumed from; ``code``: exit code (None: no end
    was recorded).
    """
    restarts, start = facts.get("restarts", 0), facts.get("job_start", 10.0)
    journal.add("attempt", attempt=number, restarts=restarts, job_start=start)
    chosen = {"path": facts["path"], "step": facts.get("step")} if "path" in facts else None
    journal.add("checkpoint", attempt=number, chosen=chosen, rejected=[])
    journal.add("step_start", attempt=number)
    if facts.get("code", 1) is not None:
        journal.add("step_end", attempt=number, exit_code=facts.get("code", 1))
        faults = [{"node": "n1", "code": "XID79", "fatal": True}] if facts.get("node") else []
        journal.add(
            "evidence", attempt=number, faults=faults, fingerprint="exit:1", progressed=False
        )


def test_events_are_read_in_order(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    _attempt(journal, 1)
    _attempt(journal, 2)
    assert [group[0]["attempt"] for group in attempts(journal.events())] == [1, 2]
    assert not journal.broken


def test_a_truncated_last_line_does_not_affect_the_next(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    journal.add("attempt", attempt=1, restarts=0, job_start=10.0)
    journal.add("step_start", attempt=1)
    whole = journal.path.read_bytes()
    for size in range(len(whole) - 2, len(whole) - 30, -1):
        journal.path.write_bytes(whole[:size])
        journal.add("attempt", attempt=2, restarts=0, job_start=10.0)
        assert [event["event"] for event in journal.events()] == ["attempt", "attempt"]


def test_garbage_lines_are_skipped(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    journal.path.parent.mkdir()
    journal.path.write_bytes(b'\x00\xff\n[1]\n{"event": 3}\nnull\n{"a": 1}\n')
    journal.add("attempt", attempt=1, restarts=0, job_start=10.0)
    assert len(journal.events()) == 1


def test_a_journal_that_cannot_be_written_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / ".holdfast").write_text("in the way")
    journal = _journal(tmp_path)
    _attempt(journal, 1)
    assert journal.broken
    assert len(past(journal.events())) == 1


def test_a_reused_job_id_inherits_nothing(tmp_path: Path) -> None:
    _attempt(_journal(tmp_path), 1)
    _attempt(_journal(tmp_path), 2, restarts=1, job_start=20.0)
    assert len(past(_journal(tmp_path, restarts=2, job_start=30.0).events())) == 2
    assert past(_journal(tmp_path, restarts=0, job_start=900.0).events()) == []
    assert past(_journal(tmp_path, restarts=1, job_start=900.0).events()) == []


def test_an_unknown_start_time_ends_no_history(tmp_path: Path) -> None:
    """Slurm did not tell the start: an attempt of the same run may not count as another job's."""
    _attempt(_journal(tmp_path), 1, restarts=1, job_start=20.0)
    assert len(past(_journal(tmp_path, restarts=1, job_start=0.0).events())) == 1
    _attempt(_journal(tmp_path), 2, restarts=1, job_start=0.0)
    assert len(past(_journal(tmp_path, restarts=1, job_start=20.0).events())) == 2


def test_attempts_of_one_run_count_together(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    _attempt(journal, 1)
    assert len(past(_journal(tmp_path).events())) == 1


def test_a_checkpoint_is_avoided_after_two_failures(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    _attempt(journal, 1, path="/c/5", step=5)
    assert not evidence_on_checkpoints(past(journal.events())).bad
    _attempt(journal, 2, path="/c/5", step=5)
    assert [trial.path for trial in evidence_on_checkpoints(past(journal.events())).bad] == ["/c/5"]


def test_node_faults_do_not_count_against_a_checkpoint(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    for number in (1, 2, 3):
        _attempt(journal, number, path="/c/5", step=5, node=True)
    assert not evidence_on_checkpoints(past(journal.events())).bad


def test_a_newer_checkpoint_resets_the_count(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    _attempt(journal, 1, path="/c/5", step=5)
    _attempt(journal, 2, path="/c/5", step=5)
    _attempt(journal, 3, path="/c/9", step=9)
    assert not evidence_on_checkpoints(past(journal.events())).bad


def test_lost_launchers_are_counted_in_a_row(tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    _attempt(journal, 1, code=None)
    _attempt(journal, 2)
    assert lost_launchers(past(journal.events())) == 0
    _attempt(journal, 3, code=None)
    _attempt(journal, 4, code=None)
    assert lost_launchers(past(journal.events())) == 2


def test_a_late_event_belongs_to_its_own_attempt(tmp_path: Path) -> None:
    """A launcher that was cut off writes it while the next attempt runs."""
    journal = _journal(tmp_path)
    journal.add("attempt", attempt=1, restarts=0, job_start=10.0)
    journal.add("step_start", attempt=1)
    journal.add("attempt", attempt=2, restarts=1, job_start=50.0)
    journal.add("step_end", attempt=1, exit_code=143)
    first, second = past(journal.events())
    assert (first.exit_code, second.exit_code, second.ended) == (143, None, False)


def test_a_late_attempt_of_an_earlier_run_is_no_other_job(tmp_path: Path) -> None:
    journal = _journal(tmp_path, restarts=1, job_start=50.0)
    _attempt(journal, 1)
    _attempt(journal, 2, restarts=1, job_start=50.0)
    journal.add("attempt", attempt=3, restarts=0, job_start=10.0)
    assert [attempt.number for attempt in past(journal.events())] == [1, 2]
