"""Asks torch in a rank for a dump of its flight recorder, where the job has it switched on.

``TORCH_NCCL_DEBUG_INFO_PIPE_FILE=STEM`` (with ``TORCH_NCCL_TRACE_BUFFER_SIZE``) makes torch create the named
pipe ``STEM<rank>.pipe``; what is written there triggers a dump to ``TORCH_NCCL_DEBUG_INFO_TEMP_FILE<rank>``
(newer: ``TORCH_FR_DUMP_TEMP_FILE<rank>``).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from holdfast.adapters import safe_file
from slurm_hooks.job.diagnosis import flight_recorder

_PIPE = b"TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_DUMPS = (b"TORCH_FR_DUMP_TEMP_FILE", b"TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_DEFAULT_DUMP = b"/tmp/nccl_trace_rank_"
_MAX_BYTES = 16 << 20


class FlightDump:
    """The recorder of one rank. ``root``: the root folder that the rank sees."""

    def __init__(self, environ: Mapping[bytes, bytes], rank: int, root: Path) -> None:
        stem = environ.get(_PIPE, b"")
        dump = next((environ[name] for name in _DUMPS if environ.get(name)), _DEFAULT_DUMP)
        self._pipe = _below(root, stem + b"%d.pipe" % rank) if stem else None
        self._dump = _below(root, dump + b"%d" % rank)
        self._before = self._stamp() if stem else None

    def request(self) -> bool:
        """Whether torch has been asked."""
        if self._pipe is None:
            return False
        try:
            fd = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            facts = os.fstat(fd)
            if not stat.S_ISFIFO(facts.st_mode) or facts.st_uid != os.getuid():
                return False
            return os.write(fd, b"1\n") > 0
        except OSError:
            return False
        finally:
            os.close(fd)

    def pending(self) -> dict[str, int] | None:
        """What the rank waits for; None: no dump has come yet, or not a whole one."""
        if self._pipe is None or self._stamp() in (None, self._before):
            return None
        try:
            return flight_recorder.pending(safe_file.read_bytes(self._dump, max_bytes=_MAX_BYTES))
        except OSError:
            return None

    def _stamp(self) -> tuple[int, int] | None:
        try:
            facts = self._dump.stat()
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_size


def _below(root: Path, path: bytes) -> Path:
    return root / os.fsdecode(path).lstrip("/")
