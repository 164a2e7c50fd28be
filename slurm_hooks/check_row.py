"""One row of ``holdfast check``, and how the table is to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.vocabulary import Mode

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
    what to do, empty where all is well. ``effect``: what Holdfast itself does about it.
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
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How to show it: the terminal's ``width`` (None: not a terminal), colours, every row."""

    width: int | None = None
    colour: bool = False
    everything: bool = False
