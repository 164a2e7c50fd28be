"""Table, code and page agree: each code that is used has a row, each row is used, and the page
shows the table.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.faults import ALL_FAULTS, FAULTS
from holdfast.faults.kernel import KERNEL_FAULTS
from holdfast.faults.sxid_rows import ROWS
from holdfast.faults.sxids import KINDS, SXIDS
from holdfast.faults.xids import CONSEQUENCES
from holdfast.vocabulary import Action, Context, FaultClass, Severity
from slurm_hooks import checks
from slurm_hooks.checks.kernel_log import UNCONFIRMED
from slurm_hooks.probes.kmsg.events import ALL_CODES

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "reference" / "faults.md"

_NUMBER = re.compile(r"S?XID\d+")


def sources() -> Iterator[Path]:
    for package in ("holdfast", "slurm_hooks", "k8s_bridge"):
        for path in (ROOT / package).rglob("*.py"):
            if path.parent != ROOT / "holdfast" / "faults":
                yield path


def strings(path: Path) -> Iterator[str]:
    """Every string constant but the docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def codes_in_calls(path: Path) -> Iterator[str]:
    """Codes that are passed as such: ``finding("X", …)``, ``Finding(code="X")``, ``Reason("X", …)``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        first = node.args[:1] if name in ("finding", "Reason") else []
        named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        for value in (*first, *(named if name == "Finding" else [])):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


HOOKS = {Context.PROLOG.value.upper(), Context.EPILOG.value.upper()}
"""What slurm_hooks/hooks/decision.py refuses a node with: the hook's own name."""

SAID = {text for path in sources() for text in strings(path)} | HOOKS


def test_no_code_has_two_rows() -> None:
    counts = Counter(row.code for row in ALL_FAULTS)
    assert [code for code, count in counts.items() if count > 1] == []
    assert len(FAULTS) == counts.total()


def test_every_code_that_a_check_or_hook_names_has_a_row() -> None:
    called = {code for path in sources() for code in codes_in_calls(path)}
    assert len(called) > 40, "the search finds the calls"
    assert sorted(code for code in called | HOOKS if code not in FAULTS) == []


def test_every_code_of_the_kernel_log_has_a_row_and_a_check() -> None:
    assert sorted(code for code in ALL_CODES if code not in FAULTS) == []
    judged = {
        text
        for name in checks.CATALOGUE
        for text in strings(Path(checks.__file__).parent / f"{name}.py")
    }
    assert sorted(code for code in ALL_CODES if code not in judged) == []
    of_the_log = {row.code for row in KERNEL_FAULTS} - {"MCE_BEFORE_BOOT", *UNCONFIRMED.values()}
    assert of_the_log == ALL_CODES


def test_every_row_is_used_in_the_code_or_is_a_number() -> None:
    silent = [code for code in FAULTS if not _NUMBER.fullmatch(code) and code not in SAID]
    assert silent == []


def page_rows() -> dict[str, list[str]]:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert len({code for code, _ in rows}) == len(rows)
    return {code: re.split(r"(?<!\\) \| ", cells) for code, cells in rows}


def test_the_page_has_each_row_of_the_table_and_no_other() -> None:
    page = page_rows()
    assert list(page.keys() - FAULTS.keys()) == []
    assert list(FAULTS.keys() - page.keys()) == []
    for code, row in FAULTS.items():
        title, severity, part, needs, drains, runbook = page[code]
        assert (severity, part, needs) == (
            row.severity.name.lower(), row.fault_class.value, row.action.value,
        ), code  # fmt: skip
        more = " (users)" if row.by_users else " (jobs move)" if row.moves_jobs else ""
        yes = f"yes{more}"
        assert drains == (yes if row.drains else "no"), code
        assert (title.replace("\\|", "|"), runbook.replace("\\|", "|")) == (row.title, row.runbook)


def test_every_code_in_a_runbook_exists() -> None:
    """A runbook that sends an admin to another code sends them to one that exists."""
    for row in FAULTS.values():
        for word in re.findall(r"\b[A-Z]{2,}(?:_[A-Z]{2,})+\b", row.runbook):
            assert word in FAULTS or word == "NCCL_IB_HCA", f"{row.code} speaks of {word}"


@pytest.mark.parametrize("number", range(1, 177))
def test_no_xid_number_of_the_driver_is_missing(number: int) -> None:
    """1 to 176: nverror.h of NVIDIA's open kernel modules 595.45.04."""
    assert f"XID{number}" in FAULTS


FATAL_IN_THE_GUIDE = (
    11001, 11009, 11013, 11018, 11019, 11020, 12001, 12002, 12022, 12024, 12025, 12026, 12027, 12030, 12031,
    12032, 14017, 15001, 15006, 15009, 15010, 15012, 15013, 19047, 19048, 19054, 19056, 19058, 19060, 19061,
    19063, 19064, 19066, 19067, 19069, 19070, 20034, 22012, 24004, 24005, 24006, 24007,
)  # fmt: skip
"""Fabric Manager user guide, October 2023, "Fatal NVSwitch SXid Errors"."""

ALWAYS_FATAL_IN_THE_GUIDE = (12020, 22003, 22011, *range(23001, 23018))

CORRECTED_IN_THE_GUIDE = (
    11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068,
    19071, 24001, 24002, 24003,
)  # fmt: skip


@pytest.mark.parametrize("number", FATAL_IN_THE_GUIDE)
def test_a_fatal_sxid_requires_a_reset(number: int) -> None:
    row = FAULTS[f"SXID{number}"]
    assert (row.severity, row.action, row.drains) == (Severity.FATAL, Action.RESET_GPU, True)


@pytest.mark.parametrize("number", ALWAYS_FATAL_IN_THE_GUIDE)
def test_an_always_fatal_sxid_requires_a_reboot(number: int) -> None:
    row = FAULTS[f"SXID{number}"]
    assert (row.severity, row.action) == (Severity.FATAL, Action.REBOOT)
    assert row.fault_class is FaultClass.SWITCH


@pytest.mark.parametrize("number", CORRECTED_IN_THE_GUIDE)
def test_a_corrected_sxid_is_a_record(number: int) -> None:
    assert FAULTS[f"SXID{number}"].severity is Severity.INFO


@pytest.mark.parametrize("number", [11004, 12028, 19084, 20012, 10001, 10002, 10004, 20009])
def test_other_notable_sxids_of_the_guide_warn(number: int) -> None:
    assert FAULTS[f"SXID{number}"].severity is Severity.WARN


def test_sxids_are_in_order_and_each_kind_is_used() -> None:
    numbers = [int(row.code.removeprefix("SXID")) for row in SXIDS]
    assert numbers == sorted(set(numbers))
    used = {line.split()[1] for line in ROWS.splitlines()}
    assert used == set(KINDS)


def test_consequences_are_marked_and_never_drain() -> None:
    marked = {row.code for row in FAULTS.values() if row.consequence}
    assert marked == {f"XID{number}" for number in CONSEQUENCES}
    for code in marked:
        assert FAULTS[code].severity is Severity.INFO
        assert not FAULTS[code].drains
