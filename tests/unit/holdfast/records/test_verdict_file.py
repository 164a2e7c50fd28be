"""The verdict file's reader: what it accepts, and what it says of anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.records import verdict_file
from holdfast.records.verdict_file import Published
from holdfast.vocabulary import Status

BOOT = "b007b007-0000-4000-8000-000000000000"
FOREIGN = "not a verdict file: "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return verdict_file.path_in(tmp_path)


def text(status: str = "bad", boot: str = BOOT, expires: str = "130", **detail: Any) -> str:
    return f"{status} {expires} {boot} holdfast/1\n{json.dumps({'status': status, **detail})}\n"


def read(path: Path, content: str, uptime_s: float = 100.0) -> Published:
    path.write_text(content)
    return verdict_file.read(path, boot_id=BOOT, uptime_s=uptime_s)


@pytest.mark.parametrize("status", list(Status))
def test_what_is_rendered_reads_back(path: Path, status: Status) -> None:
    rendered = verdict_file.render(status, expires_s=130, boot_id=BOOT, detail={"node": "wörker"})
    assert rendered.isascii()
    assert rendered.count("\n") == 2
    found = read(path, rendered)
    assert (found.status, found.fresh, found.why) == (status, True, "")
    assert found.detail == {"status": status.value, "node": "wörker"}


@pytest.mark.parametrize(
    ("uptime_s", "fresh"), [(0.0, True), (130.0, True), (131.0, True), (131.01, False)]
)
def test_a_verdict_counts_until_the_end_of_its_last_second(
    path: Path, uptime_s: float, fresh: bool
) -> None:
    found = read(path, text(), uptime_s)
    assert (found.fresh, found.status) == (fresh, Status.BAD if fresh else Status.BLIND)


def test_an_expired_verdict_says_for_how_long(path: Path) -> None:
    assert read(path, text(), 150.0).why == "verdict expired 20 s ago"


@pytest.mark.parametrize("boot", ["a", "z", BOOT + "0", BOOT[:-1]])
def test_a_verdict_of_another_boot_is_blind_but_shows_its_detail(path: Path, boot: str) -> None:
    found = read(path, text(boot=boot, findings=[{"code": "XID79"}]))
    assert (found.status, found.fresh, found.why) == (
        Status.BLIND,
        False,
        "verdict of another boot",
    )
    assert found.findings == [{"code": "XID79"}]


@pytest.mark.parametrize("wire", ["holdfast/0", "holdfast/2", "holdfast", "x" * 90])
def test_a_verdict_of_another_format_is_named_briefly(path: Path, wire: str) -> None:
    found = read(path, text().replace("holdfast/1", wire))
    assert (found.status, found.fresh) == (Status.BLIND, False)
    assert found.why == f"verdict of another format ({wire[:40]})"


@pytest.mark.parametrize(("first", "second"), [("bad", "ok"), ("ok", "bad"), ("bad", "suspect")])
def test_two_lines_that_disagree_are_not_a_verdict(path: Path, first: str, second: str) -> None:
    content = text(first).replace(f'"status": "{first}"', f'"status": "{second}"')
    found = read(path, content)
    assert (found.status, found.fresh) == (Status.BLIND, False)
    assert found.why.startswith(FOREIGN)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "bad",
        "bad 130\n{}\n",
        text().split("\n", maxsplit=1)[0],
        text("worse"),
        text(expires="soon"),
        text().replace(" holdfast/1", " holdfast/1 more"),
        text().split("\n", maxsplit=1)[0] + "\n[]\n",
        text().split("\n", maxsplit=1)[0] + "\nnull\n",
        text().split("\n", maxsplit=1)[0] + "\n{\n",
        text().split("\n", maxsplit=1)[0] + "\n" + "[" * 100_000 + "\n",
    ],
    ids=[
        "empty", "a word", "two words", "one line", "no status", "no time", "five words", "a list",
        "null", "half", "nesting",
    ],
)  # fmt: skip
def test_anything_else_is_blind_and_no_verdict(path: Path, content: str) -> None:
    found = read(path, content)
    assert (found.status, found.fresh, found.detail) == (Status.BLIND, False, {})
    assert found.why.startswith(FOREIGN + str(path))


def test_a_missing_and_an_unreadable_file_are_blind(path: Path) -> None:
    missing = verdict_file.read(path, boot_id=BOOT, uptime_s=1.0)
    assert (missing.status, missing.fresh) == (Status.BLIND, False)
    assert missing.why == "there is no verdict"
    path.mkdir()
    folder = verdict_file.read(path, boot_id=BOOT, uptime_s=1.0)
    assert (folder.status, folder.fresh) == (Status.BLIND, False)
    assert folder.why.startswith("unreadable verdict: ")
    assert "a folder" in folder.why
    long = verdict_file.read(path / ("x" * 300), boot_id=BOOT, uptime_s=1.0)
    assert len(long.why) == len("unreadable verdict: ") + 200


def test_a_third_line_is_ignored(path: Path) -> None:
    assert read(path, text() + "more\n").fresh


@pytest.mark.parametrize(
    ("detail", "drained"), [({"drained": True}, True), ({"drained": False}, False), ({}, False)]
)
def test_the_detail_says_whether_the_node_is_drained(
    path: Path, detail: dict[str, Any], drained: bool
) -> None:
    assert read(path, text(**detail)).drained is drained


def test_the_record_of_the_agents_own_drain(path: Path) -> None:
    made = {"reason": "holdfast:XID79: x"}
    assert read(path, text(decision={"made": made})).own_drain == made
    wrong: list[Any] = [{"made": None}, {"made": "x"}, {}, None, [], "x"]
    for decision in wrong:
        assert read(path, text(decision=decision)).own_drain == {}


def test_only_values_of_the_right_type_are_shown(path: Path) -> None:
    mixed = read(path, text(findings=[{"code": "A"}, "x", None], blind=["nvml", 3, None]))
    assert (mixed.findings, mixed.blind) == ([{"code": "A"}], ["nvml"])
    values: list[Any] = [None, {}, "nvml", 3]
    for value in values:
        found = read(path, text(findings=value, blind=value))
        assert (found.findings, found.blind) == ([], [])


def test_every_user_can_read_the_file_and_space_is_reserved(path: Path) -> None:
    verdict_file.write(path, text())
    assert path.stat().st_mode & 0o777 == 0o644
    reserve = verdict_file.reserve_for(path.parent)
    verdict_file.write(path, text("ok"), reserve)
    spare = [file.stat().st_size for file in path.parent.glob(".verdict.reserve-*")]
    assert spare == [65536, 65536], "for the next two verdicts, if the filesystem is full then"
    assert path.read_text() == text("ok")
    assert path.stat().st_mode & 0o777 == 0o644
