"""The machines of `scripts/test fresh`, the commands it runs there, and when it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from fresh_machine import changed, containerfile
from fresh_machine.__main__ import cases
from fresh_machine.page import shell_block

TREE = Path(__file__).parents[4]
PAGE = (TREE / "docs/howto/install.md").read_text()


def test_both_releases_of_debian_follow_the_page_and_the_readme() -> None:
    found = {(case.suite, step) for case in cases(PAGE) for step in case.steps}
    assert found >= {
        (suite, step) for suite in ("bookworm", "trixie") for step in ("demo", "unit", "install.md")
    }


def test_the_commands_of_the_page_are_run_unchanged() -> None:
    typed = next(
        " ".join(case.steps["install.md"]) for case in cases(PAGE) if "install.md" in case.steps
    )
    assert shell_block(PAGE, "## 1. The program, on every node") in typed
    assert "pip install dist/holdfast-" in typed


def test_a_block_is_the_first_below_its_own_heading() -> None:
    page = "# T\n\n## 1. A\n\n```yaml\na: 1\n```\n\n```sh\none\ntwo\n```\n\n## 2. B\n\n```sh\nthree\n```\n\n## 3. C\n"
    assert shell_block(page, "## 1. A") == "one\ntwo\n"
    assert shell_block(page, "## 2. B") == "three\n"
    for heading in ("## 3. C", "## 4. D"):
        with pytest.raises(ValueError, match="no shell block"):
            shell_block(page, heading)


def test_the_commands_of_the_image_are_run_in_their_order() -> None:
    text = (
        "# note\nARG V=1\nFROM base AS build\nCOPY a/b.lock /build/\nRUN one && \\\n  two\n"
        "COPY --from=build /x /x\nUSER 1:1\n"
    )
    assert containerfile.script(text).splitlines() == [
        "V=1",
        "mkdir -p /build && cp a/b.lock /build/",
        "( one && two )",
    ]
    with pytest.raises(ValueError, match="VOLUME"):
        containerfile.script("VOLUME /x\n")


def test_the_bridges_image_has_a_machine() -> None:
    (case,) = (case for case in cases(PAGE) if "image" in case.steps)
    commands = case.steps["image"][-1]
    assert "pip install --no-cache-dir --only-binary=:all: --require-hashes" in commands
    assert commands.index("pip wheel") < commands.index("cp dist/holdfast-")


def test_it_runs_again_when_the_set_up_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scripts/env.sh", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(changed, "TREE", tmp_path)
    before = changed.passed(tmp_path)
    (tmp_path / "README.md").write_text("two")
    assert changed.passed(tmp_path) == before
    (tmp_path / "scripts/env.sh").write_text("two")
    assert changed.passed(tmp_path) != before


def test_each_file_of_the_set_up_exists() -> None:
    for pattern in changed._SET_UP:
        assert list(TREE.glob(pattern)), pattern
