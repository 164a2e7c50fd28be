"""Encode and decode the Reason that Holdfast writes on a Slurm node.

Wire format: ``holdfast:CODE: detail [key=value …]``, one line, ASCII, at most 256 characters,
optionally after ``[node_problem] `` where the site wants Soperator to react too. A reason that does not
parse belongs to a person or another tool: it is never overwritten and never undone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_CHARS = 256
NODE_PROBLEM = "[node_problem] "

_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,31}")
_PAIR = r"[a-z][a-z0-9_]*=[!-~]+"
_FORMAT = re.compile(
    rf"(?P<problem>\[node_problem\] )?holdfast:(?P<code>{_CODE.pattern}): "
    rf"(?P<detail>[ -~]*?)(?P<pairs>(?: {_PAIR})*)"
)
# slurmctld appends these to the reason of a drained node that stops responding, that registers after a
# reboot, or that `scontrol reboot` (without a reason of its own) reboots, often because Holdfast requires it.
_APPENDED = re.compile(
    r"(?: : (?:Not responding|Node unexpectedly rebooted|reboot (?:requested|issued|complete|timed out)))+\Z"
)


def _one_line(text: str) -> str:
    ascii_only = text.encode("ascii", "replace").decode("ascii")
    return " ".join("".join(c if " " <= c <= "~" else " " for c in ascii_only).split())


def _fit(detail: str, room: int) -> str:
    """The detail as one line of at most ``room`` characters that decodes to the same text.

    The end of the line must not look like a pair, nor like something that slurmctld appended.
    """
    fitted = (_one_line(detail) or "no detail")[:room].rstrip()
    while True:
        head, blank, last = fitted.rpartition(" ")
        if re.fullmatch(_PAIR, last):
            last = last.replace("=", ":", 1)
        plain = without_appended(f" {head}{blank}{last}").strip() or "no detail"[:room]
        if plain == fitted:
            return fitted
        fitted = plain


def without_appended(text: str) -> str:
    """The reason as its author wrote it, without what slurmctld appended to it."""
    return _APPENDED.sub("", text)


@dataclass(frozen=True, slots=True)
class Reason:
    """A drain reason of Holdfast. Any detail is converted to one ASCII line that fits the wire format.

    ``pairs`` are facts for programs, e.g. ``boot`` (boot id) and ``gpu``; keys are
    ``[a-z][a-z0-9_]*``, values printable without blanks.
    """

    code: str
    detail: str = ""
    pairs: Mapping[str, str] = field(default_factory=dict)
    node_problem: bool = False

    def __post_init__(self) -> None:
        if not _CODE.fullmatch(self.code):
            raise ValueError(f"reason code {self.code!r}: expected {_CODE.pattern}")
        for key, value in self.pairs.items():
            if not re.fullmatch(_PAIR, f"{key}={value}"):
                raise ValueError(f"reason pair {key}={value!r}: expected {_PAIR}")
        room = MAX_CHARS - len(self._render(""))
        if room < 0:
            raise ValueError(f"reason pairs of {self.code} leave no room in {MAX_CHARS} characters")
        detail = _fit(self.detail, room)
        object.__setattr__(self, "detail", detail)
        object.__setattr__(self, "pairs", dict(self.pairs))

    def _render(self, detail: str) -> str:
        pairs = "".join(f" {key}={value}" for key, value in self.pairs.items())
        return f"{NODE_PROBLEM if self.node_problem else ''}holdfast:{self.code}: {detail}{pairs}"

    def __str__(self) -> str:
        return self._render(self.detail)

    @classmethod
    def parse(cls, text: str) -> Reason | None:
        """The reason, or ``None``: a person or another tool wrote it.

        Only a text that this module itself would write parses.
        """
        written = without_appended(text)
        match = _FORMAT.fullmatch(written) if len(written) <= MAX_CHARS else None
        if not match:
            return None
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split())
        try:
            reason = cls(match["code"], match["detail"], pairs, bool(match["problem"]))
        except ValueError:
            return None
        return reason if str(reason) == written else None
