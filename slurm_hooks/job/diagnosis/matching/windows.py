"""Finds phrases in blocks of text, in pure Python at about 100 MB/s.

Only operations on whole blocks are fast enough, such as ``bytes.translate`` and ``&`` of ``int``: about half
a nanosecond per byte. So each phrase is looked for by a window of six of its characters, as three pairs.
Letters, the space, the colon and the line feed are in 15 classes, all other characters in another one, so
that a pair of classes is one byte. The windows are in eight sets. For each set, one bit of each position
tells whether the first pair of one of its windows begins there, another bit whether a second pair begins two
characters later, a third whether a third pair does. Where all three bits of a set are one, which is rare
without a phrase, the characters themselves are compared. Hyperscan and ripgrep do the same with the vector
instructions of the processor, as "Teddy".

``window_sets.py`` has the classes and the sets: such that few positions need to be compared.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurm_hooks.job.diagnosis.matching.window_sets import CLASSES, SETS

_LENGTH = 6
_PAIRS = (0, 2, 4)
_MARK = b"\1"
_MARKS = bytes(1) + _MARK * 255

Places = tuple[tuple[int, bytes, frozenset[str]], ...]
"""Phrases with a window: how many characters are before the window, the phrase, and its codes."""
_Found = dict[int, frozenset[str]]


class Finder:
    """``phrases``: phrases of six characters or more in lower case, each with the codes that need it."""

    def __init__(self, phrases: Mapping[bytes, frozenset[str]]) -> None:
        self._classes = _class_table()
        self._tables = [_pair_table(self._classes, at) for at in _PAIRS]
        self._places: dict[bytes, Places] = {}
        known = {window.encode() for windows in SETS for window in windows}
        for phrase, codes in phrases.items():
            at, window = _window_of(phrase, known)
            self._places[window] = (*self._places.get(window, ()), (at, phrase, codes))

    def lines(self, lower: bytes) -> _Found:
        """Begin of each line with a phrase → the codes of all its phrases. ``lower``: lines in lower case,
        each with its end."""
        found: _Found = {}
        marks, places = self._marks(lower), self._places
        at = marks.find(_MARK)
        while at >= 0:
            known = places.get(lower[at : at + _LENGTH])
            if known is not None:
                _note(found, lower, at, known)
            at = marks.find(_MARK, at + 1)
        return found

    def _marks(self, lower: bytes) -> bytes:
        """Not 0 where a window may begin; empty if there is none."""
        count = len(lower)
        classes = int.from_bytes(lower.translate(self._classes), "little")
        pairs = (classes | classes >> 4).to_bytes(count, "little")
        hits = -1
        for at, table in zip(_PAIRS, self._tables, strict=True):
            hits &= int.from_bytes(pairs[at:].translate(table), "little")
        return hits.to_bytes(count, "little").translate(_MARKS) if hits else b""


def _note(found: _Found, lower: bytes, at: int, places: Places) -> None:
    """Adds the line of each phrase whose window is at ``at``."""
    for before, phrase, codes in places:
        if at >= before and lower.startswith(phrase, at - before):
            begin = lower.rfind(b"\n", 0, at - before) + 1
            known = found.get(begin)
            found[begin] = codes if known is None else known | codes


def _class_table() -> bytes:
    """Character → number of its class; 0 for all that are in none."""
    table = bytearray(256)
    for number, letters in enumerate(CLASSES, 1):
        for letter in letters.encode():
            table[letter] = number
    return bytes(table)


def _pair_table(classes: bytes, at: int) -> bytes:
    """Pair of classes → one bit for each set that has a window with this pair at ``at``."""
    table = bytearray(256)
    for number, windows in enumerate(SETS):
        for window in windows:
            one, other = window.encode()[at : at + 2]
            table[classes[one] | classes[other] << 4] |= 1 << number
    return bytes(table)


def _window_of(phrase: bytes, known: set[bytes]) -> tuple[int, bytes]:
    for at in range(len(phrase) - _LENGTH + 1):
        window = phrase[at : at + _LENGTH]
        if window in known:
            return at, window
    raise ValueError(
        f"{phrase!r} has no window: PYTHONPATH=scripts:. python -m measure.window_sets"
    )
