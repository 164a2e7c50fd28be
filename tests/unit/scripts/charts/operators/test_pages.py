"""Commands are taken from the pages as they are there."""

from __future__ import annotations

import pytest
from charts.errors import NotHeld
from charts.operators.pages import BLOCKS, block, command, typed


def test_a_command_is_whole() -> None:
    """A pipe with its second line, and a here document with its end."""
    copied = command("install-bridge.md", "kubectl -n soperator get secret soperator-munge")
    assert copied.splitlines()[1].endswith("--from-file=munge.key=/dev/stdin")
    assert len(copied.splitlines()) == 2
    token = command("slinky.md", "kubectl apply -f - <<'END'")
    assert token.splitlines()[1] == "apiVersion: slinky.slurm.net/v1beta1"
    assert token.splitlines()[-1] == "END"


@pytest.mark.parametrize("begin", ["kubectl no such", "kubectl"])
def test_a_command_that_is_not_there_once_is_refused(begin: str) -> None:
    with pytest.raises(NotHeld, match="once"):
        command("install-bridge.md", begin)


@pytest.mark.parametrize(
    ("project", "what"), [(project, what) for project, blocks in BLOCKS.items() for what in blocks]
)
def test_every_block_that_a_record_is_about_is_on_its_page(project: str, what: str) -> None:
    text = typed(project, what)
    assert text.endswith("\n")
    assert not text.startswith((" ", "```")), "also in a list"
    assert BLOCKS[project][what][1] in text


@pytest.mark.parametrize("holds", ["kubectl no such", "kubectl"])
def test_a_block_that_is_not_there_once_is_refused(holds: str) -> None:
    with pytest.raises(NotHeld, match="one block"):
        block("install-bridge.md", holds)
