"""docs/reference/checks.md and faults.md: the two catalogues, as they are in the code."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

from holdfast.faults import FAULTS, Fault
from holdfast.vocabulary import FaultClass
from reference.schema import keys_of
from slurm_hooks import checks

_CHECKS_HEAD = """\
# Checks

<!-- Made by scripts/docs_reference from slurm_hooks/checks. Edit the checks, not this page. -->

What the agent looks at in each pass; `holdfast check` shows the same once, for people. Every check
is in mode `observe` until the configuration says otherwise ([configuration.md](configuration.md)).
A check whose probe cannot look says nothing; the node is then blind there, neither healthy nor bad.

| check | probe | faults | opens / closes after (passes) |
|---|---|---|---|
"""

_FAULTS_HEAD = """\
# Faults

<!-- Made by scripts/docs_reference from holdfast/faults. Edit the catalogue, not this page. -->

The codes in Slurm's Reason (`holdfast:CODE: …`), in findings and in the taint on the Kubernetes
node. `holdfast faults CODE` shows one of them, with the source of its row.

- severity: `fatal`: work on the node is lost; `warn`: the node is degraded; `info`: a record.
- needs: what must have happened before Holdfast gives the node back. `contact-support`: a person
  resumes it.
- drains: whether a check in mode `drain` takes the node out of service. A `warn` that drains lets
  the running jobs go on. `yes (users)`: any user with a job there can cause it, so it gets a part of the
  budget only (`node.budget.users_share`).
- An Xid that is not listed is `warn` and never drains; nor does an SXid, unless the log line itself
  says `Fatal`.
- The sources of the rows, and where they disagree: `holdfast faults CODE` and the modules' docstrings.
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
What the NVIDIA driver reports of a GPU (`NVRM: Xid (PCI:…): 79, …`). An Xid 154 and NVML's recovery action
outrank the column "needs": they know this GPU.
"""

_SXIDS = """\
What the driver reports of an NVSwitch (`nvidia-nvswitch0: SXid (PCI:…): 20034, Fatal, Link 28 …`). The word in
the line outranks the column "severity".
"""


def checks_page() -> str:
    """The whole page: a table of all checks, then a paragraph for each."""
    rows, parts = [], []
    for name in checks.CATALOGUE:
        check = checks.load(name)
        limits = check.limits()
        codes = ", ".join(f"`{code}`" for code in codes_of(name))
        often = f"{limits.open_after} / {limits.clear_after}"
        rows.append(f"| [`{name}`](#{name}) | {check.probe or '-'} | {codes} | {often} |\n")
        said = _doc(inspect.getdoc(_module(name)))
        parts.append(f"\n## {name}\n\n{said}\n{_limits(name)}{_faults_of(name)}")
    return _CHECKS_HEAD + "".join(rows) + "".join(parts)


def _module(name: str) -> ModuleType:
    return importlib.import_module(checks.CATALOGUE[name])


def codes_of(name: str) -> list[str]:
    """The fault codes that a check can report, read off its source; `XID…` for those of the kernel log."""
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(inspect.getsource(_module(name)))):
        if isinstance(node, ast.Constant) and node.value in FAULTS:
            found[str(node.value)] = None
        if isinstance(node, ast.JoinedStr) and ast.unparse(node).startswith(("f'XID", 'f"XID')):
            found["XID…"] = None
        if isinstance(node, ast.Constant) and node.value == "SXID":
            found["SXID…"] = None
    return list(found)


def _faults_of(name: str) -> str:
    """What the check can find, with what the catalogue says of each."""
    found = [FAULTS[code] for code in codes_of(name) if code in FAULTS]
    rows = [
        f"- `{row.code}` ({row.severity.name.lower()}, "
        f"{'drains' if row.drains else 'does not drain'}): {row.title}\n"
        for row in found
    ]
    if any(code.endswith("…") for code in codes_of(name)):
        rows.append("- the numbers of [faults.md](faults.md), each with its own severity\n")
    return "\nFinds:\n\n" + "".join(rows)


def _limits(name: str) -> str:
    limits = checks.load(name).limits
    doc = inspect.getdoc(limits) or ""
    said = "" if doc.startswith("Limits(") else f"\nLimits: {_doc(doc)}\n"
    keys = [key for key in keys_of(limits, "") if key.path not in ("open_after", "clear_after")]
    rows = [
        f"- `checks.{name}.limits.{key.path}`: {key.kind}, default `{key.default}`"
        + (f"; {key.allowed}" if key.allowed else "")
        + "\n"
        for key in keys
    ]
    return said + ("\n" + "".join(rows) if rows else "")


def _doc(text: str | None) -> str:
    paragraphs = (text or "").replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def faults_page() -> str:
    """The whole page: Holdfast's own codes by the part at fault, then the driver's and the switches'
    numbers."""
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


def _table(rows: list[Fault]) -> Iterator[str]:
    yield "| code | what | severity | part | needs | drains | what to do |\n"
    yield "|---|---|---|---|---|---|---|\n"
    for row in rows:
        cells = (
            f"`{row.code}`", row.title, row.severity.name.lower(), row.fault_class.value, row.action.value,
            ("yes (users)" if row.by_users else "yes") if row.drains else "no", row.runbook,
        )  # fmt: skip
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
