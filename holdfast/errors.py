"""What can go wrong, by whose fault and with what remedy.

* HoldfastError           the one base; its text is what a person reads, in one line
  x ConfigError           the configuration is wrong: file, line, value, remedy
  x UsageError            a command was used wrongly: exit status 2
  x ProbeError            a probe could not look (never evidence against a node)
  x CommandError          an external command failed
    + Unavailable         no answer (time-out, controller down): may be tried again
    + Refused             answered no: trying again changes nothing
"""

from __future__ import annotations

from collections.abc import Sequence


class HoldfastError(Exception):
    """Base of every error that Holdfast raises on purpose."""


class ConfigError(HoldfastError):
    """The configuration is unusable. The text holds one line for each problem, all at once."""


class UsageError(HoldfastError):
    """A command was called with something that it cannot take (exit status 2)."""


class ProbeError(HoldfastError):
    """A probe could not look. The node is blind there, neither healthy nor bad."""


class CommandError(HoldfastError):
    """An external command did not do what it was asked.

    ``argv`` is what ran, ``status`` its exit status (None: it never ended), ``output``
    what it said.
    """

    def __init__(
        self, argv: Sequence[str], problem: str, output: str = "", status: int | None = None
    ):
        self.argv, self.problem, self.output, self.status = tuple(argv), problem, output, status
        said = " ".join(output.split())[:300]
        super().__init__(f"{' '.join(self.argv)[:200]}: {problem}" + (f": {said}" if said else ""))


class Unavailable(CommandError):
    """Nobody answered in time. The same call may succeed later."""


class Refused(CommandError):
    """The answer was no. The same call will be refused again."""
