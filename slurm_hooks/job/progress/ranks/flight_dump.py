"""Asks torch in a rank for a dump of its flight recorder, where the job has it switched on.

``TORCH_NCCL_DEBUG_INFO_PIPE_FILE=STEM`` (with ``TORCH_NCCL_TRACE_BUFFER_SIZE``) makes torch create the named
pipe ``STEM<rank>.pipe``; what is written there triggers a dump to ``TORCH_NCCL_DEBUG_INFO_TEMP_FILE<rank>``
(newer: ``TORCH_FR_DUMP_TEMP_FILE<rank>``). torch also writes one by itself when a collective fails.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.adapters import safe_file
from slurm_hooks.job.diagnosis import flight_recorder
from slurm_hooks.job.progress.ranks.processes import Rank
from slurm_hooks.job.step.kill_tasks import AttemptId

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_DUMPS = (b"TORCH_FR_DUMP_TEMP_FILE", b"TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_DEFAULT_DUMP = b"/tmp/nccl_trace_rank_"
_MAX_BYTES = 16 << 20
_MAX_NODE_BYTES = 64 << 20
"""Kept of one node."""
_MAX_ENTRIES = 4096


class FlightDump:
    """The recorder of one rank. ``root``: the root folder that the rank sees."""

    def __init__(self, environ: Mapping[bytes, bytes], rank: int, root: Path) -> None:
        stem = environ.get(PIPE.encode(), b"")
        self._pipe = _below(root, stem + b"%d.pipe" % rank) if stem else None
        self._dump = _below(root, _stem(environ) + b"%d" % rank)
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


def _stem(environ: Mapping[bytes, bytes]) -> bytes:
    """The path of a rank's dump, without its rank."""
    return next((environ[name] for name in _DUMPS if environ.get(name)), _DEFAULT_DUMP)


def places(procfs: Path, ranks: Sequence[Rank], environ: Mapping[bytes, bytes]) -> frozenset[Path]:
    """Where dumps of the attempt may be on this node, as paths without the rank. ``environ``: of this process,
    for a node on which no rank is left."""
    found = {
        _below(procfs / str(rank.main.pid) / "root", _stem(rank.main.environ)) for rank in ranks
    }
    return frozenset(found) or frozenset({_below(Path("/"), _stem(environ))})


def keep(attempt: AttemptId, stems: frozenset[Path], age_s: float) -> None:
    """Copies the user's own dumps that are at most ``age_s`` old beside the journal. Never raises."""
    left, taken = _MAX_NODE_BYTES, set[int]()
    for stem in sorted(stems):
        with suppress(OSError):
            for rank, path in _found(stem, time.time() - age_s):
                if rank in taken:
                    continue
                data = safe_file.read_bytes(path, max_bytes=min(left, _MAX_BYTES))
                _write(copy_of(attempt, rank), data)
                left -= len(data)
                taken.add(rank)


def copy_of(attempt: AttemptId, rank: int | str) -> Path:
    """Where the dump of a rank is kept."""
    name = f"job-{attempt.job_id}-attempt-{attempt.attempt}-flight-rank-{rank}.pickle"
    return Path(attempt.journal).with_name(name)


def _found(stem: Path, since: float) -> Iterator[tuple[int, Path]]:
    for entry in safe_file.scan(stem.parent, most=_MAX_ENTRIES):
        rank = entry.name.removeprefix(stem.name)
        if rank == entry.name or not rank.isdecimal() or len(rank) > 7:
            continue
        facts = entry.stat(follow_symlinks=False)
        own = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid()
        if own and facts.st_mtime >= since and facts.st_size <= _MAX_BYTES:
            yield int(rank), stem.parent / entry.name


def _write(path: Path, data: bytes) -> None:
    """Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        file.write(data)
