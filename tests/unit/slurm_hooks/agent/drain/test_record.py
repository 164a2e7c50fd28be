"""What the agent keeps of drains that have ended."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from holdfast.config.schema import PathsConfig
from holdfast.policy.ownership import DrainRecord
from holdfast.vocabulary import Action
from slurm_hooks.agent.drain.record import ENDED_KEPT, Drained, Records

NOON = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)


@pytest.fixture
def paths(tmp_path: Path) -> PathsConfig:
    return PathsConfig(run=tmp_path / "run", state=tmp_path / "state")


def ended(number: int) -> Drained:
    record = DrainRecord(
        reason=f"holdfast:XID{number}: {'x' * 220} boot=aaaaaaaa",
        actor="root(0)",
        at=NOON,
        written_at=NOON,
        code=f"XID{number}",
        action=Action.RESET_GPU,
        boot_id="3f2b" * 9,
        instance_id="computeinstance-12345678",
        gpu=3,
    )
    return Drained(record=record, subject="GPU-d4c444eb-0000-0000-0000-000000000000")


def test_the_newest_are_kept_for_the_next_agent(paths: PathsConfig) -> None:
    records = Records(paths)
    drains = tuple(ended(number) for number in range(ENDED_KEPT))
    records.save_ended(drains)
    assert records.problem == ""
    assert Records(paths).load_ended() == drains


def test_they_fit_into_the_space_that_is_reserved(paths: PathsConfig) -> None:
    """A full disk must not cost the proof that a drain is Holdfast's."""
    records = Records(paths)
    records.save_ended([ended(number) for number in range(ENDED_KEPT)])
    assert (paths.state / "drain.last.json").stat().st_size <= 4096


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 1, "drains": 7}', '{"version": 1, "drains": [{}, 3]}']
)
def test_a_damaged_file_is_no_proof(paths: PathsConfig, text: str) -> None:
    paths.state.mkdir()
    (paths.state / "drain.last.json").write_text(text)
    assert Records(paths).load_ended() == ()
