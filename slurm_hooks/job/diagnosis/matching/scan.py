"""Finds the lines of an output that match a signature, in one pass and constant memory.

A block of output is first searched for the phrases that messages of failures contain (``phrases.py``), and
only its lines with such a phrase for the signatures that need it.

Whether training goes on matters only after a line that may be the cause: ``wants``, a function, tells
whether it does. Of the time before that line, only the last steps count, which other ranks may print again.

Lines that end in a carriage return, as of progress bars, are lines of their own but keep the number of the
line feed that they belong to. A very long line is read in pieces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from slurm_hooks.job.diagnosis.lines.launcher_lines import ATTEMPT, PREFIX, node_fault_in
from slurm_hooks.job.diagnosis.lines.source_code import is_ignored, is_source
from slurm_hooks.job.diagnosis.matching.match import failure_in, first_row, progress_in
from slurm_hooks.job.diagnosis.matching.phrases import NUMBERED, PROGRESS_WORDS, phrases
from slurm_hooks.job.diagnosis.matching.windows import Finder
from slurm_hooks.job.signatures import Signature, Weight

_BLOCK_BYTES = 32 << 10
"""The copies of a block of this size stay in the processor's cache."""
_PIECE_BYTES = 64 << 10
"""A longer line is read in pieces of this size."""
_OVERLAP_BYTES = 512
_TAIL_BYTES = 4 << 10
"""Of the output before a line, to see the traceback that it belongs to, and the last steps."""
_MAX_LINES = 1_000
_MAX_LINE_BYTES = 500

_UPPER, _LOWER = bytes(range(65, 91)), bytes(range(97, 123))
_TO_LOWER = bytes.maketrans(_UPPER + b"\r", _LOWER + b"\n")
_TO_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LAUNCHER = PREFIX.encode()


class Found(NamedTuple):
    """A line that matches ``row``; ``row`` None: the launcher starts an attempt. ``before``: the output
    before it, for its time."""

    number: int
    text: str
    row: Signature | None
    before: bytes


class Memory:
    """What is known of lines; shared by the outputs of a job. At most about 1 MiB."""

    def __init__(self, *, launcher: bool = True) -> None:
        self.launcher = launcher
        self._failures: dict[bytes, Signature | None] = {}
        self._progress: dict[bytes, Signature | None] = {}

    def failure_of(self, line: bytes, codes: frozenset[str]) -> Signature | None:
        """The signature of a line that contains phrases of these codes."""
        plain, numbered = codes - NUMBERED, codes & NUMBERED
        found = _remembered(self._failures, line, lambda text: failure_in(text, plain))
        if not numbered:
            return found
        return first_row(found, failure_in(line.decode("utf-8", "replace"), numbered))

    def progress_of(self, line: bytes) -> Signature | None:
        """The signature of progress that the line matches."""
        return _remembered(self._progress, line, progress_in)


def _remembered(
    known: dict[bytes, Signature | None], line: bytes, find: Callable[[str], Signature | None]
) -> Signature | None:
    """``find`` must find the same for lines that differ only in the values of digits."""
    if len(line) > _MAX_LINE_BYTES:
        return find(line.decode("utf-8", "replace"))
    key = line.translate(_TO_ZEROS)
    if key not in known:
        if len(known) >= _MAX_LINES:
            known.clear()
        known[key] = find(line.decode("utf-8", "replace"))
    return known[key]


class Scanner:
    """Reads one output in blocks of any size."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rest = b""
        self._tail = b""
        self._lines_before = 0

    def feed(self, data: bytes, *, wants: Callable[[], bool]) -> Iterator[Found]:
        """The lines that match; those that show progress only while ``wants`` says so."""
        for at in range(0, len(data), _BLOCK_BYTES):
            piece = data[at : at + _BLOCK_BYTES]
            block = self._rest + piece if self._rest else piece
            cut = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            if cut:
                self._rest = block[cut:]
                yield from self._block(block[:cut], wants)
            else:
                self._rest = block
            while len(self._rest) > _PIECE_BYTES:
                head = self._rest[:_PIECE_BYTES]
                self._rest = self._rest[_PIECE_BYTES - _OVERLAP_BYTES :]
                yield from self._block(head, wants)

    def end(self, *, wants: Callable[[], bool]) -> Iterator[Found]:
        """The last line, if it has no end."""
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._block(rest, wants)

    def _block(self, block: bytes, wants: Callable[[], bool]) -> Iterator[Found]:
        lower = block.translate(_TO_LOWER)
        may_fail = _finder().lines(lower if lower.endswith(b"\n") else lower + b"\n")
        if may_fail or wants():
            yield from self._lines(block, lower, may_fail, wants)
        self._lines_before += block.count(b"\n")
        self._tail = (self._tail + block[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def _lines(
        self,
        block: bytes,
        lower: bytes,
        may_fail: dict[int, frozenset[str]],
        wants: Callable[[], bool],
    ) -> Iterator[Found]:
        may_progress: list[int] | None = None
        at, counted, number = 0, 0, self._lines_before + 1
        for begin in (*sorted(may_fail), len(block)):
            if wants():
                if may_progress is None:
                    may_progress = sorted(_lines_with(lower, PROGRESS_WORDS))
                for other in may_progress[bisect_left(may_progress, at) :]:
                    if other >= begin or not wants():
                        break
                    yield from self._step(block, other, _end(lower, other))
            if begin == len(block):
                return
            at = _end(lower, begin)
            number += block.count(b"\n", counted, begin)
            counted = begin
            yield from self._line(block, begin, at, number, may_fail[begin], wants)

    def _line(
        self,
        block: bytes,
        begin: int,
        end: int,
        number: int,
        codes: frozenset[str],
        wants: Callable[[], bool],
    ) -> Iterator[Found]:
        """A line that contains phrases of these codes."""
        line = block[begin:end]
        if line.startswith(_LAUNCHER):
            text = line.decode("utf-8", "replace")
            fault = node_fault_in(text)
            if self._memory.launcher and (fault or ATTEMPT.match(text)):
                before = self._before(block, begin)
                yield Found(number, text, fault[0] if fault else None, before)
            return
        row = self._memory.failure_of(line, codes)
        if row is None:
            if wants():
                yield from self._step(block, begin, end)
            return
        text, before = line.decode("utf-8", "replace"), self._before(block, begin)
        if is_source(text, before) or is_ignored(text, before):
            return
        if not wants() and row.weight is not Weight.NONE and row.may_pass:
            yield from self._steps_of(before)
        yield Found(number, text, row, before)

    def _step(self, block: bytes, begin: int, end: int) -> Iterator[Found]:
        """A line that may show progress."""
        line = block[begin:end]
        row = None if line.startswith(_LAUNCHER) else self._memory.progress_of(line)
        if row is not None:
            text = line.decode("utf-8", "replace")
            if not text.startswith(" ") or not is_source(text, self._before(block, begin)):
                yield Found(0, text, row, b"")

    def _steps_of(self, output: bytes) -> Iterator[Found]:
        lower = output.translate(_TO_LOWER)
        for begin in sorted(_lines_with(lower, PROGRESS_WORDS)):
            yield from self._step(output, begin, _end(lower, begin))

    def _before(self, block: bytes, begin: int) -> bytes:
        before = block[max(0, begin - _TAIL_BYTES) : begin]
        return before if begin >= _TAIL_BYTES else self._tail[begin - _TAIL_BYTES :] + before


def _end(lower: bytes, begin: int) -> int:
    end = lower.find(b"\n", begin)
    return len(lower) if end < 0 else end


def _lines_with(lower: bytes, words: tuple[bytes, ...]) -> set[int]:
    """Begin of each line with one of the words."""
    found = set()
    for word in words:
        at = lower.find(word)
        while at >= 0:
            found.add(lower.rfind(b"\n", 0, at) + 1)
            at = lower.find(word, _end(lower, at))
    return found


@lru_cache(maxsize=1)
def _finder() -> Finder:
    return Finder(phrases())
