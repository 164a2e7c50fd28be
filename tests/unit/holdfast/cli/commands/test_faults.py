"""``holdfast faults``: one runbook, a search, a clear message for an unknown code."""

from __future__ import annotations

import json

import pytest

from holdfast.cli.commands import faults
from holdfast.faults import FAULTS
from slurm_hooks.job.signatures import SIGNATURES


def ran(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = faults.main(argv)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["XID79"], "XID79"),
        (["79"], "XID79"),
        (["079"], "XID79"),
        (["xid", "79"], "XID79"),
        (["Xid 79"], "XID79"),
        (["SXID12028"], "SXID12028"),
        (["12028"], "SXID12028"),
        (["sxid", "12028"], "SXID12028"),
        (["gpu_lost"], "GPU_LOST"),
    ],
)
def test_a_code_in_any_spelling_prints_its_runbook(
    argv: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ran(capsys, *argv)
    assert status == 0
    assert out.startswith(f"{code}: {FAULTS[code].title}")
    page = " ".join(out.split())
    assert " ".join(FAULTS[code].runbook.split()) in page
    assert FAULTS[code].source in page
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("code", FAULTS)
def test_every_page_has_the_required_action(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, code)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line[2] != " "] == (
        [
            "severity", *(["follows"] if FAULTS[code].consequence else []), "part", "drains",
            *(["users"] if FAULTS[code].by_users else []), "needs", "do", "source",
        ]
    )  # fmt: skip


def test_words_search_codes_titles_and_runbooks(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "nvlink", "training")
    assert status == 0
    codes = [line.split()[0] for line in out.splitlines()[1:]]
    assert "XID136" in codes
    assert "XID79" not in codes
    assert ran(capsys, "--class", "switch", "minion")[1].count("SXID") >= 4


def test_a_class_alone_lists_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "--class", "storage", "--json")
    rows = json.loads(out)
    assert status == 0
    assert {row["class"] for row in rows} == {"storage"}
    assert {row["code"] for row in rows} == {
        code for code, row in FAULTS.items() if row.fault_class.value == "storage"
    }


@pytest.mark.parametrize(
    ("code", "do"),
    [
        ("U08", "Correct the program: a retry would fail in the same way."),
        (
            "C04",
            "Start the job again on other nodes. Check the node that printed the line: holdfast explain NODE.",
        ),
        ("P00", "Nothing: this is no failure."),
    ],
)
def test_a_code_of_a_log_says_first_what_to_do(
    code: str, do: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ran(capsys, code)
    assert status == 0
    assert " ".join(out.partition("\n  suspect")[0].split()).endswith(f"do {do}")
    [pattern] = [row.pattern for row in SIGNATURES if row.code == code]
    assert out.endswith(f"\n  pattern   {pattern}\n")
    assert json.loads(ran(capsys, code, "--json")[1])[0]["do"] == do


@pytest.mark.parametrize("width", [80, 100, 120])
def test_every_code_is_whole_on_a_screen(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    status, out, _ = ran(capsys)
    assert status == 0
    assert max(map(len, out.splitlines())) <= width
    head, *rows = out.splitlines()
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == list(FAULTS)
    assert ("CLASS" in head.split()) == (width >= 100)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["XID1000"], ["XID1000 is not in the catalogue", "never drains"]),
        (["SXID20033"], ["SXID20033 is not in the catalogue"]),
        (["GPU_LOTS"], ["did you mean 'GPU_LOST'?"]),
        (["zzz"], ["`holdfast faults` lists them all"]),
        (["--class", "host", "nvswitch"], ["no fault of class host matches 'nvswitch'"]),
        (["99999999999999999999"], ["no fault '99999999999999999999'"]),
    ],
)
def test_an_unknown_code_gets_one_line_and_a_suggestion(
    argv: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = ran(capsys, *argv)
    assert (status, out) == (1, "")
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize("word", ["XID9999", "SXID20033", "9999"])
def test_no_other_number_is_suggested_for_a_number(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "did you mean" not in ran(capsys, word)[2]


def test_a_class_that_does_not_exist_is_used_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        faults.main(["--class", "moon"])
    assert stopped.value.code == 2
    assert "moon" in capsys.readouterr().err
