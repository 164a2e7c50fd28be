"""The table of `holdfast check` for given rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.vocabulary import Action
from slurm_hooks.cli.check.row import BLIND, OK, UNSEEN, WARN, Row, Style, linked
from slurm_hooks.cli.check.table import condensed, is_bad, names, page, ranged, summary

FATAL = "fatal"


def row(
    check: str = "gpu_thermal",
    name: str = "GPU 0",
    value: str = "margin 58 C",
    verdict: str = OK,
    code: str = "",
    limit: str = "> -2 C",
) -> Row:
    return Row(
        check=check,
        mode="drain",
        subject=f"uuid of {name}",
        name=name,
        value=value,
        limit=limit,
        verdict=verdict,
        code=code,
        remedy="Look at fans and air flow." if code or verdict == BLIND else "",
        effect="Holdfast reports only (mode observe)" if code else "",
    )


def gpus(count: int = 8, **given: str) -> list[Row]:
    return [row(name=f"GPU {index}", **given) for index in range(count)]


def lines(rows: Sequence[Row], **style: bool | int) -> list[str]:
    return page("worker-0", rows, Style(**style)).splitlines()  # type: ignore[arg-type]


# --- one line for equal values ------------------------------------------------------------


def test_eight_healthy_gpus_are_one_line_and_eight_with_all() -> None:
    assert sum("gpu_thermal" in line for line in lines(gpus(), width=100)) == 1
    assert sum("gpu_thermal" in line for line in lines(gpus(), width=100, all_rows=True)) == 8


def test_values_that_differ_in_numbers_become_a_range() -> None:
    (one,) = condensed([row(name=f"GPU {i}", value=f"margin {50 + i} C") for i in (3, 1, 9)])
    assert (one.name, one.value) == ("GPU 1, 3, 9", "margin 51 to 59 C")


def test_a_faulty_gpu_is_never_merged_with_healthy_ones() -> None:
    rows = [*gpus(4), row(name="GPU 4", value="margin -4 C", verdict=WARN, code="GPU_THERMAL")]
    assert [one.name for one in condensed(rows)] == ["GPU 0-3", "GPU 4"]


def test_several_gpus_with_one_fault_take_one_row() -> None:
    rows = [row(name=f"GPU {i}", verdict=WARN, code="GPU_THERMAL") for i in (1, 4, 5)]
    text = lines(rows, width=100)
    assert sum("GPU 1, 4-5" in line for line in text) == 1
    assert sum(line.startswith("  > GPU_THERMAL: ") for line in text) == 1


def test_rows_with_another_code_limit_or_text_are_not_merged() -> None:
    rows = [
        row(verdict=WARN, code="A"),
        row(verdict=WARN, code="B"),
        row(limit="> 0 C"),
        row(value="no sensor"),
        row(),
    ]
    assert len(list(condensed(rows))) == 5


def test_one_blind_probe_is_one_line_that_names_its_checks() -> None:
    rows = [row(check=c, name="nvml", value="hung", verdict=BLIND) for c in ("gpu_ecc", "gpu_lost")]
    (one,) = condensed(rows)
    assert one.check == "gpu_* (2)"
    assert "Affected checks: gpu_ecc, gpu_lost." in one.remedy


def test_checks_with_the_same_value_for_the_node_share_a_line() -> None:
    rows = [row(check=f"kernel_{w}", name="node", value="nothing") for w in ("fs", "mce", "oom")]
    assert [one.check for one in condensed(rows)] == ["kernel_* (3)"]
    rows[0] = row(check="kmsg", name="node", value="nothing")
    assert [one.check for one in condensed(rows)] == ["kmsg +2"]


@pytest.mark.parametrize(
    ("of", "output"),
    [
        (["GPU 3"], "GPU 3"),
        (["GPU 2", "GPU 0", "GPU 1", "GPU 7"], "GPU 0-2, 7"),
        (["/mnt/a", "/mnt/b"], "/mnt/a, /mnt/b"),
        (["mlx5_0", "mlx5_1", "mlx5_2"], "mlx5_0 and 2 more"),
        (["GPU 0", "GPU 1", "mlx5_0", "mlx5_1", "mlx5_2"], "GPU 0-1, mlx5_0 and 2 more"),
    ],
)
def test_subjects_are_listed_in_short_form(of: list[str], output: str) -> None:
    assert names(of) == output


def test_every_faulty_subject_is_listed() -> None:
    assert names(["mlx5_0", "mlx5_1", "mlx5_2"], whole=True) == "mlx5_0, mlx5_1, mlx5_2"


@pytest.mark.parametrize(
    ("values", "output"),
    [
        (["ok, 26% free, 29 ms", "ok, 24% free, 37 ms"], "ok, 24 to 26% free, 29 to 37 ms"),
        (["-4 C", "-10 C"], "-10 to -4 C"),
        (["0.5 s", "0.50 s"], "0.5 s"),
        (["x16 of 580.105.08", "x16 of 580.105.08"], "x16 of 580.105.08"),
    ],
)
def test_ranges(values: list[str], output: str) -> None:
    assert ranged(values) == output


def test_versions_and_addresses_are_not_numbers() -> None:
    """`96.00.99 to 96.00.74` would make no sense, so such values are not merged."""
    for one, other in (("VBIOS 96.00.99", "VBIOS 96.00.74"), ("0000:53:00", "0000:54:00")):
        assert len(list(condensed([row(value=one), row(name="GPU 1", value=other)]))) == 2


# --- the page -------------------------------------------------------------------------------------


def test_the_worst_comes_first_and_rows_of_one_subject_together() -> None:
    rows = [
        row(check="clock", name="node", value="+0.1 s"),
        row(check="gpu_xid", name="GPU 3", verdict=FATAL, code="XID79"),
        row(check="gpu_nvlink", name="GPU 5", verdict=FATAL, code="NVLINK_DOWN"),
        row(check="gpu_lost", name="GPU 3", verdict=FATAL, code="GPU_LOST"),
        row(check="gpu_thermal", name="GPU 1", verdict=WARN, code="GPU_THERMAL"),
    ]
    text = "\n".join(lines(rows, width=100))
    found = re.findall(r"^(gpu_\w+|clock)", text, re.MULTILINE)
    assert found == ["gpu_xid", "gpu_lost", "gpu_nvlink", "gpu_thermal", "clock"]


@pytest.mark.parametrize("width", [20, 40, 59, 72, 80, 100, 132, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = "Xid 74: NVLink: fatal error detected on link 0(0x10000, 0x0, 0x0), reset is required"
    rows = [*gpus(), row("gpu_xid", "GPU 5", long, FATAL, "XID74", "-"), row("k", "n", "", UNSEEN)]
    for line in lines(rows, width=width):
        assert len(line) <= width, line


def test_only_the_verdict_is_coloured_and_only_if_requested() -> None:
    rows = [row(verdict=FATAL, code="XID79")]
    assert "\x1b[1;31mfatal\x1b[0m" in page("n", rows, Style(width=100, colour=True))
    assert "\x1b" not in page("n", rows, Style(width=100))
    for width in (40, 100):
        plain = page("n", rows, Style(width=width))
        assert (
            re.sub(r"\x1b\[[0-9;]*m", "", page("n", rows, Style(width=width, colour=True))) == plain
        )


def test_an_ok_row_is_cut_to_one_line_except_with_all() -> None:
    rows = gpus(value="w " * 80)
    assert any("…" in line for line in lines(rows, width=100))
    assert not any("…" in line for line in lines(rows, width=100, all_rows=True))


def test_missing_subjects_take_one_line_and_are_not_ok() -> None:
    rows = [row(), row("dcgm", "-", "nothing to check", UNSEEN)]
    text = lines(rows, width=100)
    assert "not present, not checked: dcgm" in text
    assert text[-1] == "worker-0: 1 check ok"


def test_a_check_with_some_subjects_lists_the_missing_ones() -> None:
    rows = [
        row("services", "fabricmanager", "running"),
        row("services", "dcgm", "not visible", UNSEEN),
        row("probe_blind", "-", "nothing to check", UNSEEN),
    ]
    assert "not present, not checked: services dcgm" in lines(rows)


# --- causes and consequences -----------------------------------------------------------------


def fault(code: str, check: str = "gpu_xid", **more: Any) -> Row:
    made = row(check, "GPU 3", f"value of {code}", FATAL, code)
    return replace(made, **{"required_action": Action.REBOOT, **more})


FALLEN = (
    fault("XID154", cause=False),
    fault("GPU_LOST", "gpu_lost", required_action=Action.RESET_GPU),
    fault("XID79"),
    fault("XID45", cause=False),
)


def test_a_consequence_is_below_its_cause_and_names_it() -> None:
    rows = linked(FALLEN)
    assert [one.consequence_of for one in rows] == ["XID79", "", "", "XID79"]
    text = "\n".join(lines(rows))
    assert re.findall("value of ([A-Z0-9_]+)", text) == ["GPU_LOST", "XID79", "XID154", "XID45"]
    assert "> XID154: Consequence of XID79." in text


def test_only_causes_are_counted_and_a_required_action_is_shown_once() -> None:
    *_, whole, needs, effect = lines(linked(FALLEN))
    assert whole == "worker-0: 2 fatal (GPU_LOST, XID79), 0 checks ok"
    assert needs == "needs a reboot: GPU 3"
    assert effect == "Holdfast reports only (mode observe): GPU_LOST, XID79"


def test_subjects_with_the_same_required_action_share_a_line() -> None:
    rows = [replace(fault("GPU_LOST"), name=f"GPU {index}") for index in range(8)]
    rows.append(replace(fault("PCIE"), name="GPU 7", required_action=Action.REPLACE))
    output = [line for line in lines(rows) if line.startswith("needs ")]
    assert output == ["needs a reboot: GPU 0-6", "needs another machine: GPU 7"]


def test_a_consequence_without_a_cause_counts() -> None:
    alone = [fault("XID154", cause=False)]
    assert linked(alone) == alone
    other = replace(fault("XID79"), subject="another GPU")
    assert linked([*alone, other])[0].consequence_of == ""
    assert summary("n", alone) == "n: 1 fatal (XID154), 0 checks ok"


def test_the_last_lines_are_summary_and_effect() -> None:
    rows = [row(verdict=WARN, code="GPU_THERMAL"), *(row(check=f"c{i}") for i in range(3))]
    *_, whole, effect = lines(rows, width=100)
    assert whole == "worker-0: 1 warn (GPU_THERMAL), 3 checks ok"
    assert effect == "Holdfast reports only (mode observe): GPU_THERMAL"


def test_a_check_with_one_faulty_gpu_does_not_count_as_ok() -> None:
    rows = [*gpus(3), row(name="GPU 3", verdict=FATAL, code="X")]
    assert summary("n", rows) == "n: 1 fatal (X), 0 checks ok"


@pytest.mark.parametrize(
    ("verdict", "bad"),
    [(OK, False), ("info", False), (UNSEEN, False), (WARN, True), (FATAL, True), (BLIND, True)],
)
def test_verdicts_that_require_an_action(verdict: str, bad: bool) -> None:
    assert is_bad([row(), row(verdict=verdict)]) is bad


def test_the_json_keys_are_stable() -> None:
    assert list(row(code="A", verdict=WARN).plain.items()) == [
        ("check", "gpu_thermal"),
        ("mode", "drain"),
        ("subject", "uuid of GPU 0"),
        ("value", "margin 58 C"),
        ("limit", "> -2 C"),
        ("verdict", "warn"),
        ("remedy", "A: Look at fans and air flow."),
        ("name", "GPU 0"),
        ("code", "A"),
        ("required_action", "none"),
        ("consequence_of", ""),
    ]
