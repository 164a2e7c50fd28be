"""Finds the lines of an output that match a signature, in one pass and constant memory.

Most lines of a job differ from an earlier line only in numbers. So a block of output is first reduced to
the letters of its lines, and only lines whose letters are new are looked at: for a word that some
signature needs (``words.py``), and then for the signature. What was found is remembered for the letters.
Lines that end in a carriage return, as of progress bars, are lines of their own but keep the number of the
line feed that they belong to. A very long line is read in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from slurm_hooks.job.diagnosis.launcher_lines import ATTEMPT, PREFIX, node_fault_in
from slurm_hooks.job.diagnosis.matching import first_of
from slurm_hooks.job.diagnosis.source_code import is_source
from slurm_hooks.job.diagnosis.words import PROGRESS, codes_of
from slurm_hooks.job.signatures import Kind, Signature

_PIECE_BYTES = 64 << 10
"""A longer line is read in pieces of this size."""
_OVERLAP_BYTES = 512
_TAIL_BYTES = 4 << 10
"""Of the block before, to see the traceback that a line belongs to."""
_TRIES = 16
"""So many lines with the same letters and other numbers are looked at before all are taken as equal."""
_MAX_NUMBERS = 256
_MEMORY_BYTES = 512 << 10
_MAX_WORDS = 8_000
_MAX_WORD = 100

_UPPER, _LOWER = bytes(range(65, 91)), bytes(range(97, 123))
_LETTERS = frozenset(_UPPER + _LOWER)
_TO_LOWER = bytes.maketrans(_UPPER + b"\r", _LOWER + b"\n")
_NO_LETTERS = bytes(code for code in range(256) if code not in _LETTERS and code not in b"\r\n")
_TO_WORDS = bytes.maketrans(
    _UPPER + bytes(code for code in range(256) if code not in _LETTERS),
    _LOWER + b" " * (256 - len(_LETTERS)),
)
_ENDS = bytes.maketrans(b"\r", b"\n")
_NUMBERS = re.compile(rb"(?<!\d)\d{1,5}(?!\d)")
_LAUNCHER = PREFIX.encode()


class Found(NamedTuple):
    """A line that matches ``row``; ``row`` None: the launcher starts an attempt. ``before``: the output
    before it, for its time."""

    number: int
    text: str
    row: Signature | None
    before: bytes


class Memory:
    """What is known of the letters of lines; shared by the outputs of a job. At most about 3 MiB."""

    def __init__(self, *, launcher: bool = True) -> None:
        self._launcher = launcher
        self._dull: set[bytes] = set()
        self._rows: dict[bytes, dict[bytes, Signature | None]] = {}
        self.progress: set[bytes] = set()
        self.failures: set[bytes] = set()
        self._codes: dict[bytes, frozenset[str]] = {}
        self._bytes = 0

    def unknown(self, letters: set[bytes]) -> set[bytes]:
        return letters.difference(self._dull, self._rows, self.failures)

    def learn(self, lines: dict[bytes, bytes]) -> None:
        """``lines``: letters → a line with these letters."""
        self._bytes += sum(120 + len(letters) for letters in lines)
        for letters, line in lines.items():
            self._judge(letters, line)

    def make_room(self) -> None:
        """Forgets everything when it has grown too large."""
        if self._bytes > _MEMORY_BYTES:
            self._dull, self._rows, self._bytes = set(), {}, 0
            self.progress, self.failures = set(), set()
        if len(self._codes) > _MAX_WORDS:
            self._codes = {}

    def row_of(self, letters: bytes, line: bytes) -> Signature | None:
        """The signature of a line whose letters are in ``failures`` or ``progress``."""
        seen = self._rows[letters]
        if len(seen) == 1 and b"" in seen:
            return seen[b""]
        key = b" ".join(_NUMBERS.findall(line)[:8])
        if key not in seen:
            if len(seen) >= _TRIES and len(set(seen.values())) == 1:
                self._rows[letters] = seen = {b"": next(iter(seen.values()))}
                if seen[b""] is None:
                    self._forget(letters)
                return seen[b""]
            if len(seen) >= _MAX_NUMBERS:
                seen.clear()
            seen[key] = self._first_of(line)
        return seen[key]

    def _forget(self, letters: bytes) -> None:
        self._dull.add(letters)
        self.failures.discard(letters)
        self.progress.discard(letters)

    def _judge(self, letters: bytes, line: bytes) -> None:
        if line.startswith(_LAUNCHER):
            (self.failures if self._launcher else self._dull).add(letters)
            return
        codes, progress = self._may_match(line)
        if not codes and not progress:
            self._dull.add(letters)
            return
        self._rows[letters] = {}
        row = self.row_of(letters, line)
        is_progress = not codes or (row and row.kind is Kind.PROGRESS)
        (self.progress if is_progress else self.failures).add(letters)

    def _first_of(self, line: bytes) -> Signature | None:
        codes, progress = self._may_match(line)
        return first_of(line.decode("utf-8", "replace"), codes=codes, progress=progress)

    def _may_match(self, line: bytes) -> tuple[frozenset[str], bool]:
        """The signatures of failures that the line may match, and whether it may show progress."""
        words = set(line.translate(_TO_WORDS).split())
        known = self._codes
        for word in words.difference(known):
            known[word[:_MAX_WORD]] = codes_of(word)
        codes = [found for word in words if (found := known.get(word[:_MAX_WORD]))]
        return frozenset().union(*codes), not words.isdisjoint(PROGRESS)


class Scanner:
    """Reads one output in blocks of any size."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._rest = b""
        self._tail = b""
        self._lines_before = 0

    def feed(self, data: bytes, *, progress: bool) -> Iterator[Found]:
        """The lines that match; those that show progress only if ``progress`` or beside failures."""
        block = self._rest + data if self._rest else data
        cut = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
        if cut:
            self._rest = block[cut:]
            yield from self._block(block[:cut], progress)
        else:
            self._rest = block
        while len(self._rest) > _PIECE_BYTES:
            piece, self._rest = (
                self._rest[:_PIECE_BYTES],
                self._rest[_PIECE_BYTES - _OVERLAP_BYTES :],
            )
            yield from self._block(piece, progress)

    def end(self, *, progress: bool) -> Iterator[Found]:
        """The last line, if it has no end."""
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._block(rest, progress)

    def _block(self, block: bytes, progress: bool) -> Iterator[Found]:
        memory = self._memory
        memory.make_room()
        letters = block.translate(_TO_LOWER, _NO_LETTERS).split(b"\n")
        distinct = set(letters)
        lines: list[bytes] | None = None
        unknown = memory.unknown(distinct)
        if unknown:
            lines = block.translate(_ENDS).split(b"\n")
            memory.learn(_first_lines(unknown, letters, lines))
        wanted = distinct & memory.failures
        if progress or wanted:
            wanted |= distinct & memory.progress
        if wanted:
            lines = lines or block.translate(_ENDS).split(b"\n")
            yield from self._found(block, letters, lines, wanted)
        self._lines_before += block.count(b"\n")
        self._tail = (self._tail + block)[-_TAIL_BYTES:]

    def _found(
        self, block: bytes, letters: list[bytes], lines: list[bytes], wanted: set[bytes]
    ) -> Iterator[Found]:
        at, counted, number = 0, 0, self._lines_before + 1
        for index, one in enumerate(letters):
            line = lines[index]
            begin, at = at, at + len(line) + 1
            if one not in wanted:
                continue
            number += block.count(b"\n", counted, begin)
            counted = begin
            before = block[max(0, begin - _TAIL_BYTES) : begin]
            if begin < _TAIL_BYTES:
                before = self._tail[begin - _TAIL_BYTES :] + before
            text = line.decode("utf-8", "replace")
            if line.startswith(_LAUNCHER):
                fault = node_fault_in(text)
                if fault or ATTEMPT.match(text):
                    yield Found(number, text, fault[0] if fault else None, before)
                continue
            row = self._memory.row_of(one, line)
            if row is not None and not is_source(text, before):
                yield Found(number, text, row, before)


def _first_lines(
    unknown: set[bytes], letters: list[bytes], lines: list[bytes]
) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for index, one in enumerate(letters):
        if one in unknown and one not in found:
            found[one] = lines[index]
            if len(found) == len(unknown):
                break
    return found
