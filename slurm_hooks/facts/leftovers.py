"""Processes that ended jobs left on the node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverFacts:
    """A process that still runs after its job ended.

    ``unkillable``  SIGKILL did not end it; ``state`` is then its process state (proc(5)).
    ``confirmed``   it certainly belongs to that job; else it only holds memory of a GPU that the job
                    had and no other job has.
    ``gpus``        indices of the GPUs whose memory it holds; ``used_bytes``: on all of them.
    """

    pid: int
    job: int
    command: str = ""
    confirmed: bool = True
    unkillable: bool = False
    state: str = ""
    gpus: tuple[int, ...] = ()
    used_bytes: int | None = None
