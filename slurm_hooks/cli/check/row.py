"""One row of ``holdfast check``, and the style of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.vocabulary import Action, Mode

FATAL, WARN, INFO = "fatal", "warn", "info"
OK, UNSEEN, BLIND = "ok", "unseen", "blind"
ORDER = (FATAL, WARN, BLIND, INFO, OK, UNSEEN)
"""Every verdict, the worst first."""
BAD = frozenset({FATAL, WARN, BLIND})
"""Verdicts that require an action."""

EFFECTS: Mapping[Mode, str] = {
    Mode.OFF: "not checked by the agent (mode off)",
    Mode.OBSERVE: "Holdfast reports only (mode observe)",
    Mode.COMMENT: "Holdfast comments in Slurm (mode comment)",
    Mode.DRAIN: "Holdfast drains the node (mode drain)",
}
"""What the agent does about a finding. The printed line appends the codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value of one check.

    ``verdict``: ok, info, warn, fatal, blind (its probe gave no answer) or unseen (the node has
    nothing to check). ``name``: the subject for people, `GPU 3` for a UUID. ``remedy``: what to do,
    empty if ok. ``effect``: what Holdfast does about it. ``required_action``: what must
    happen before the node returns to service. ``cause`` False: this fault is a consequence of another;
    ``consequence_of``: the code of that fault, if it is among the rows.
    """

    check: str
    mode: str
    subject: str
    name: str
    value: str
    limit: str
    verdict: str
    code: str = ""
    remedy: str = ""
    effect: str = ""
    required_action: Action = Action.NONE
    cause: bool = True
    consequence_of: str = ""

    @property
    def plain(self) -> dict[str, str]:
        """The row as JSON. The keys are stable."""
        return {
            "check": self.check,
            "mode": self.mode,
            "subject": self.subject,
            "value": self.value,
            "limit": self.limit,
            "verdict": self.verdict,
            "remedy": f"{self.code}: {self.remedy}" if self.code else self.remedy,
            "name": self.name,
            "code": self.code,
            "required_action": self.required_action.value,
            "consequence_of": self.consequence_of,
        }


def linked(rows: Sequence[Row]) -> list[Row]:
    """The same rows; each consequence gets the code of its cause on the same subject: the worst one,
    preferably of the same check.
    """
    causes = sorted((row for row in rows if row.code and row.cause), key=_rank)

    def with_cause(row: Row) -> Row:
        same = [cause for cause in causes if cause.subject == row.subject]
        if row.cause or not same:
            return row
        code = min(same, key=lambda cause: cause.check != row.check).code
        return replace(row, consequence_of=code, remedy=f"Consequence of {code}.")

    return [with_cause(row) for row in rows]


def _rank(row: Row) -> int:
    return ORDER.index(row.verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The style of the table: ``width`` in characters, colours, all rows."""

    width: int = 120
    colour: bool = False
    all_rows: bool = False
