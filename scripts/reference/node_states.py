"""docs/reference/node-states.md: every state of Slurm, read from the bridge's table."""

from __future__ import annotations

from k8s_bridge.names import ALWAYS, WHEN_TRUE
from k8s_bridge.state_table import TABLE, StateRow

_HEAD = """\
# Node states

<!-- Written by scripts/docs_reference from k8s_bridge/state_table.py. Edit that, not this page. -->

What the bridge shows of each state of Slurm on the Kubernetes Node. A node has one base state and
any number of flags. Each condition follows the first matching row below.

- Every Node has {always}.
- A Node gets {when_true}
  when they become True for the first time; absent means False. They need the rights of the current
  `holdfast render rbac`. All are Unknown while slurmctld does not answer.
- label: the value of `holdfast.dev/slurm-state`. With (`idle`) after it, the
  label has this value only if it would otherwise be `idle`.
- isolate: `bridge.isolate` may name the state, as in `bridge: {{isolate: {{DOWN: taint}}}}`. Without
  that, the bridge isolates a Node only for a drain by Holdfast (`bridge.cordon`, `bridge.taint`).
  It undoes only what it did, and its own drains for Kubernetes never isolate a Node. What it
  isolates for a state counts against `bridge.budget`, except for DRAIN.

| state | conditions | label | isolate | meaning |
|---|---|---|---|---|
"""


def node_states_page() -> str:
    """The page."""
    head = _HEAD.format(
        always=_words(ALWAYS),
        when_true=_words(WHEN_TRUE),
    )
    return head + "".join(_row(row) for row in TABLE)


def _words(names: tuple[str, ...]) -> str:
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} and {last}"


def _row(row: StateRow) -> str:
    shown = ", ".join(f"`{name}`={status} ({reason})" for name, status, reason in row.shown)
    label = f"`{row.label}`" if row.label else "-"
    if row.on_idle and row.label not in ("", "idle"):
        label += " (`idle`)"
    cells = (
        f"`{row.state.value}`",
        shown or "-",
        label,
        "yes" if row.may_isolate else "no",
        row.meaning,
    )
    return "| " + " | ".join(cells) + " |\n"
