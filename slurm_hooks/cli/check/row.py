"""One row of ``holdfast check``, and how the table is to look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.vocabulary import Action, Mode

FATAL, WARN, INFO = "fatal", "warn", "info"
OK, UNSEEN, BLIND = "ok", "unseen", "blind"
ORDER = (FATAL, WARN, BLIND, INFO, OK, UNSEEN)
"""Every verdict, the worst first."""
BAD = frozenset({FATAL, WARN, BLIND})
"""What somebody has to do something about."""

EFFECTS: Mapping[Mode, str] = {
    Mode.OFF: "the agent does not look (mode off) for",
    Mode.OBSERVE: "Holdfast only tells (mode observe)",
    Mode.COMMENT: "Holdfast notes in Slurm (mode comment)",
    Mode.DRAIN: "Holdfast takes the node out of service (mode drain) for",
}
"""What the agent does about a finding, as the beginning of a line that ends in codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value that one check looked at.

    ``verdict``: ok, info, warn, fatal, blind (its probe gave no answer) or unseen (there is nothing
    of the kind to look at). ``name``: the subject as people say it, `GPU 3` for a UUID. ``remedy``:
    what to do, empty where all is well. ``effect``: what Holdfast itself does about it. ``needs``:
    what must happen before the node returns. ``cause`` False: another fault brings this one along;
    ``follows``: the code of that one, where it is among the rows.
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
    needs: Action = Action.NONE
    cause: bool = True
    follows: str = ""

    @property
    def plain(self) -> dict[str, str]:
        """The row for programs; these keys stay."""
        return {
            "check": self.check,
            "mode": self.mode,
            "subject": self.subject,
            "value": self.value,
            "limit": self.limit,
            "verdict": self.verdict,
            "what_to_do": f"{self.code}: {self.remedy}" if self.code else self.remedy,
            "name": self.name,
            "code": self.code,
            "needs": self.needs.value,
            "follows": self.follows,
        }


def linked(rows: Sequence[Row]) -> list[Row]:
    """The same rows, each consequence with the cause on the same subject that it follows: of the
    same check if there is one, the worst.
    """
    causes = sorted((row for row in rows if row.code and row.cause), key=_rank)

    def follows(row: Row) -> Row:
        near = [cause for cause in causes if cause.subject == row.subject]
        if row.cause or not near:
            return row
        code = min(near, key=lambda cause: cause.check != row.check).code
        return replace(row, follows=code, remedy=f"Follows {code}.")

    return [follows(row) for row in rows]


def _rank(row: Row) -> int:
    return ORDER.index(row.verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How to show it: the ``width`` in characters, colours, every row."""

    width: int = 120
    colour: bool = False
    everything: bool = False
