"""A guide is read in ten minutes: 2,000 words at most, with its commands."""

from __future__ import annotations

from pathlib import Path

import pytest

HOWTO = Path(__file__).parents[3] / "docs/howto"
WORDS_A_MINUTE = 200
MINUTES = 10


@pytest.mark.parametrize("page", sorted(HOWTO.glob("*.md")), ids=lambda page: page.name)
def test_a_guide_is_read_in_ten_minutes(page: Path) -> None:
    assert len(page.read_text().split()) <= MINUTES * WORDS_A_MINUTE
