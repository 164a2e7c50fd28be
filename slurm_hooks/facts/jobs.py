"""What ended jobs left on the node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverFacts:
    """A process that outlived its job and is still there.

    ``unkillable``  SIGKILL did not end it; ``state`` is the kernel's letter then.
    ``confirmed``      it is that job's beyond doubt; else it only holds the memory of a GPU that the
                    job had and no other job has.
    ``gpus``        indices of the GPUs whose memory it holds, ``used_bytes`` of them all.
    """

    pid: int
    job: int
    command: str = ""
    confirmed: bool = True
    unkillable: bool = False
    state: str = ""
    gpus: tuple[int, ...] = ()
    used_bytes: int | None = None
