"""The pages under docs/howto: what they tell to type can be typed, and where they point there is something."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from holdfast.cli.commands.render import main as render
from holdfast.cli.main import COMMANDS
from slurm_hooks import checks

DOCS = Path(__file__).parents[4] / "docs"
PAGES = sorted((DOCS / "howto").glob("*.md"))
_LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)(#[^)\s]+)?\)")
_FILE = re.compile(r"^cat >([\w.]+) <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def typed(page: Path) -> list[list[str]]:
    """Every `holdfast …` in the page's shell blocks, as words."""
    text = "\n".join(_BLOCK.findall(page.read_text())).replace("\\\n", " ")
    lines = [
        line.split(" #")[0].strip().removeprefix("/opt/holdfast/bin/") for line in text.splitlines()
    ]
    commands = (re.split(r"[|>]", line)[0] for line in lines if line.startswith("holdfast "))
    return [shlex.split(command)[1:] for command in commands]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists_and_every_document_can_be_rendered(
    page: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in _FILE.findall(page.read_text()):
        Path(name).write_text(text)
    (tmp_path / "slurm.conf").write_text("")
    digest = f"@sha256:{'0' * 64}"
    for words in typed(page):
        assert words[0] in COMMANDS, words
        if words[0] == "render":
            # What a reader puts in: his file, and the digest of his image.
            argv = [
                word.replace("/etc/slurm/slurm.conf", f"{tmp_path}/slurm.conf")
                .replace("@sha256:…", digest)
                .replace("@$(cat digest)", digest)
                for word in words
            ]
            assert render(argv[1:]) == 0, (words, capsys.readouterr().err)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for file, anchor in _LINK.findall(page.read_text()):
        if file.startswith("http"):
            continue
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        if anchor:
            heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor[1:] in anchors, (file, anchor)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_check_that_is_named_with_a_mode_exists(page: Path) -> None:
    named = re.findall(r"\b([a-z_]+): \{mode: (\w+)", page.read_text())
    assert [name for name, _ in named if name not in checks.CATALOGUE] == []
    assert {mode for _, mode in named} <= {"off", "observe", "comment", "drain"}


def test_the_pages_together_name_every_way_to_install() -> None:
    rendered = {words[1] for page in PAGES for words in typed(page) if words[0] == "render"}
    assert {"soperator", "soperator-nodeset", "slinky", "slurm-conf", "systemd"} <= rendered
