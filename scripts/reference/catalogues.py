"""docs/reference/checks.md and faults.md: the two catalogues, read from the code."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from types import ModuleType

from holdfast.faults import FAULTS, Fault
from holdfast.vocabulary import FaultClass
from reference.schema import keys_of
from slurm_hooks import checks

_CHECKS_HEAD = """\
# Checks

<!-- Written by scripts/docs_reference from slurm_hooks/checks. Edit the checks, not this page. -->

The agent runs these checks in each pass. `holdfast check` runs them once, for people. The default
mode of every check is `observe` ([configuration.md](configuration.md)). If the probe of a check
gives no answer, the check reports nothing, and the node is blind: neither healthy nor bad.

The last column is the number of passes in a row that open a finding, and the number that close it.

| check | probe | faults | opens / closes after |
|---|---|---|---|
"""

_FAULTS_HEAD = """\
# Faults

<!-- Written by scripts/docs_reference from holdfast/faults. Edit the catalogue, not this page. -->

These codes appear in Slurm's Reason (`holdfast:CODE: …`), in findings and in the taint on the
Kubernetes node. `holdfast faults CODE` shows one of them with its source.

- severity: `fatal`: work on the node is lost. `warn`: the node is degraded. `info`: a record.
- needs: what must happen before Holdfast returns the node to service. `contact-support`: a person
  must resume it.
- drains: whether a check in mode `drain` drains the node. With `warn`, running jobs continue.
  `yes (jobs move)`: those of `holdfast run` leave the node at their next checkpoint, if other nodes
  are free.
  `yes (users)`: any user with a job on the node can cause it, so it counts against a share of the
  budget (`node.budget.users_share`).
- An Xid that is not listed is `warn` and never drains. The same holds for an SXid, unless its log
  line contains `Fatal`.
- For the sources of the rows, and where they disagree, see `holdfast faults CODE` and the
  docstrings of the modules.
"""

_PARTS = {
    FaultClass.APPLICATION: "Applications",
    FaultClass.GPU: "GPUs",
    FaultClass.LINK: "Links: NVLink and PCIe",
    FaultClass.SWITCH: "NVSwitches",
    FaultClass.DRIVER: "The NVIDIA driver",
    FaultClass.NETWORK: "Network",
    FaultClass.STORAGE: "Storage",
    FaultClass.HOST: "Host",
    FaultClass.HOLDFAST: "Holdfast and Slurm",
}

_XIDS = """\
Errors that the NVIDIA driver reports for a GPU (`NVRM: Xid (PCI:…): 79, …`). An Xid 154 and NVML's
recovery action take precedence over the column "needs", because they are about this GPU.
"""

_SXIDS = """\
Errors that the driver reports for an NVSwitch
(`nvidia-nvswitch0: SXid (PCI:…): 20034, Fatal, Link 28 …`). The word `Fatal` in the line takes
precedence over the column "severity".
"""


def checks_page() -> str:
    """The page: a table of all checks, then a section for each."""
    rows, parts = [], []
    for name in checks.CATALOGUE:
        check = checks.load(name)
        limits = check.limits()
        codes = ", ".join(f"`{code}`" for code in codes_of(name))
        passes = f"{limits.open_after} / {limits.clear_after}"
        rows.append(f"| [`{name}`](#{name}) | {check.probe or '-'} | {codes} | {passes} |\n")
        text = _doc(inspect.getdoc(_module(name)))
        parts.append(f"\n## {name}\n\n{text}\n{_limits(name)}{_faults_of(name)}")
    return _CHECKS_HEAD + "".join(rows) + "".join(parts)


def _module(name: str) -> ModuleType:
    return importlib.import_module(checks.CATALOGUE[name])


def codes_of(name: str) -> list[str]:
    """The fault codes that a check can report, read off its source; `XID…` for those of the kernel log."""
    codes: dict[str, None] = {}
    for node in ast.walk(ast.parse(inspect.getsource(_module(name)))):
        if isinstance(node, ast.Constant) and node.value in FAULTS:
            codes[str(node.value)] = None
        if isinstance(node, ast.JoinedStr) and ast.unparse(node).startswith(("f'XID", 'f"XID')):
            codes["XID…"] = None
        if isinstance(node, ast.Constant) and node.value == "SXID":
            codes["SXID…"] = None
    return list(codes)


def _faults_of(name: str) -> str:
    """The faults that the check can report, with severity and title from the catalogue."""
    faults = [FAULTS[code] for code in codes_of(name) if code in FAULTS]
    rows = [
        _item(
            f"`{row.code}` ({row.severity.name.lower()}, "
            f"{'drains' if row.drains else 'does not drain'}): {row.title}"
        )
        for row in faults
    ]
    if any(code.endswith("…") for code in codes_of(name)):
        rows.append(_item("the numbers of [faults.md](faults.md), each with its own severity"))
    return "\nReports:\n\n" + "".join(rows)


def _limits(name: str) -> str:
    limits = checks.load(name).limits
    doc = inspect.getdoc(limits) or ""
    text = "" if doc.startswith("Limits(") else f"\n{_doc(f'Limits: {doc}')}\n"
    keys = [key for key in keys_of(limits, "") if key.path not in ("open_after", "clear_after")]
    rows = [
        _item(
            f"`checks.{name}.limits.{key.path}`: {key.kind}, default `{key.default}`"
            + (f"; {key.allowed}" if key.allowed else "")
        )
        for key in keys
    ]
    return text + ("\n" + "".join(rows) if rows else "")


_WIDTH = 100
"""Columns of a page, as in the pages that people write."""


def _item(text: str) -> str:
    """An item of a list."""
    return f"{_filled(f'- {text}', indent='  ')}\n"


def _filled(text: str, indent: str = "") -> str:
    """The text in lines of a page's width. Words are never broken, at hyphens neither."""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _doc(text: str | None) -> str:
    """A docstring as Markdown: its paragraphs, each filled."""
    paragraphs = (text or "").replace("``", "`").split("\n\n")
    return "\n\n".join(_filled(" ".join(paragraph.split())) for paragraph in paragraphs)


def faults_page() -> str:
    """The whole page: Holdfast's own codes by the part at fault, then Xids and SXids."""
    numbers = {
        kind: [row for row in FAULTS.values() if row.code.startswith(kind)]
        for kind in ("XID", "SXID")
    }
    parts = [_FAULTS_HEAD]
    for part, title in _PARTS.items():
        rows = [
            row
            for row in FAULTS.values()
            if row.fault_class is part and not row.code.startswith(tuple(numbers))
        ]
        if rows:
            parts.append(f"\n## {title}\n\n{''.join(_table(rows))}")
    parts.append(f"\n## Xids\n\n{_XIDS}\n{''.join(_table(numbers['XID']))}")
    parts.append(f"\n## SXids\n\n{_SXIDS}\n{''.join(_table(numbers['SXID']))}")
    return "".join(parts)


def _drains(row: Fault) -> str:
    if not row.drains:
        return "no"
    more = " (users)" if row.by_users else " (jobs move)" if row.moves_jobs else ""
    return f"yes{more}"


def _table(rows: list[Fault]) -> Iterator[str]:
    yield "| code | what | severity | part | needs | drains | what to do |\n"
    yield "|---|---|---|---|---|---|---|\n"
    for row in rows:
        cells = (
            f"`{row.code}`", row.title, row.severity.name.lower(), row.fault_class.value, row.action.value,
            _drains(row), row.runbook,
        )  # fmt: skip
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
