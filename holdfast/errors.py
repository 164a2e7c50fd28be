"""The exceptions that Holdfast raises.

* HoldfastError           the base class; its text is the message that a person reads, one line
  x ConfigError           the configuration is wrong: file, line, value, remedy
  x UsageError            a command was used wrongly: exit status 2
  x ProbeError            a probe gave no answer (never evidence against a node)
  x CommandError          an external command failed
    + Unavailable         no answer (time-out, controller down): a retry may succeed
      - NotInstalled      there is no such command here
    + Refused             the request was rejected: a retry fails again
"""

from __future__ import annotations

from collections.abc import Sequence


class HoldfastError(Exception):
    """Base class of every exception that Holdfast raises on purpose."""


class ConfigError(HoldfastError):
    """The configuration cannot be used. The text has one line for each problem."""


class UsageError(HoldfastError):
    """A command was called with arguments that it does not accept (exit status 2)."""


class ProbeError(HoldfastError):
    """A probe gave no answer. What it looks at is unknown, neither healthy nor bad."""


class CommandError(HoldfastError):
    """An external command failed.

    ``argv`` is the command line, ``status`` the exit status (None: it did not end), ``output`` what it
    printed.
    """

    def __init__(
        self, argv: Sequence[str], problem: str, output: str = "", status: int | None = None
    ):
        self.argv, self.problem, self.output, self.status = tuple(argv), problem, output, status
        text = " ".join(output.split())[:300]
        super().__init__(f"{_shown(self.argv)}: {problem}" + (f": {text}" if text else ""))


def _shown(argv: tuple[str, ...]) -> str:
    """The command line; only the program if there are control characters in it, such as separators."""
    line = " ".join(argv)
    return line[:200] if line.isprintable() else argv[0]


class Unavailable(CommandError):
    """No answer in time. The same call may succeed later."""


class NotInstalled(Unavailable):
    """There is no such command here. It may be on a mount that returns."""


class Refused(CommandError):
    """The request was rejected. The same call will be rejected again."""
