"""The ``notify`` section of the configuration: who is told what happens to jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from holdfast.config.bounds import within


class JobEvent(str, Enum):
    """What can be told about a job of ``holdfast run``."""

    RESTARTED = "restarted"
    HELD = "held"
    FAILED = "failed"
    SLOW = "slow"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyConfig:
    """What the agent of a job's first node tells by mail or webhook. Without either it tells nobody."""

    events: tuple[JobEvent, ...] = tuple(JobEvent)
    """restarted (here or on other nodes), held (a person must release the job), failed (it ends for
    good), slow (it has become slower than it was, and goes on).
    """
    mail: tuple[str, ...] = ()
    """The program that sends a mail, and its arguments, such as [/usr/sbin/sendmail, -i, "{user}"].
    It gets the mail on standard input. `{user}` becomes the name of the job's owner. The agent runs it
    as root.
    """
    webhook_file: Path | None = None
    """A file that only root can read. Its first line is the URL to which the agent sends each event as
    JSON with POST; further lines are headers, such as `Authorization: Bearer TOKEN`.
    """
    timeout_s: float = 10.0
    """Limit for one mail or one request. Each is tried three times in six minutes."""
    max_per_hour: int = 60
    """Events of one user that are sent within an hour. Further ones are only logged."""

    def __post_init__(self) -> None:
        within(self, timeout_s=(0.1, 120), max_per_hour=(1, 10_000))
        if self.mail and not self.mail[0].startswith("/"):
            raise ValueError(
                f"mail must begin with the absolute path of a program, got {self.mail[0]!r}"
            )
        if self.webhook_file is not None and not self.webhook_file.is_absolute():
            raise ValueError(
                f"webhook_file must be an absolute path, got {str(self.webhook_file)!r}"
            )

    @property
    def told(self) -> frozenset[JobEvent]:
        """The events of which somebody is told."""
        return frozenset(self.events if self.channels else ())

    @property
    def channels(self) -> tuple[str, ...]:
        """The ways that the site has chosen: ``mail``, ``webhook``."""
        chosen = {"mail": bool(self.mail), "webhook": self.webhook_file is not None}
        return tuple(name for name, is_chosen in chosen.items() if is_chosen)
