"""Writes slurm_hooks/job/diagnosis/matching/window_sets.py: by which windows of six characters phrases are found.

To be run after a change of the phrases. A window is good if its pairs of characters are rare in usual text
and if many phrases contain it. Windows whose pairs are equal or rare are in the same set.

    PYTHONPATH=scripts:. .venv/bin/python -m measure.window_sets
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

from testbed.paths import TREE

from measure.job.logs import LOGS
from slurm_hooks.job.diagnosis.matching.phrases import phrases

LENGTH = 6
_LETTERS = "abcdefghijklmnopqrstuvwxyz :\n"
_PAGES = ("LICENSE", "CONTRIBUTING.md", "README.md", "docs/reference/glossary.md")
_SETS = 8
_CLASSES = 15
_TRIALS = 60_000
_COST = 10
"""Of one more window, in positions of the text."""
Pair = tuple[int, int]
"""Classes of two characters that follow each other."""
_FILE = TREE / "slurm_hooks/job/diagnosis/matching/window_sets.py"


def usual_text() -> str:
    """Text without failures, other than that which the benchmark reads."""
    text = "".join((TREE / page).read_text() for page in _PAGES)
    text += "".join(log(15_000, 1000).decode() for log in LOGS.values())
    return text.lower()


def classes(text: str) -> list[str]:
    """Letters in classes that are about equally frequent."""
    count = Counter(letter for letter in text if letter in _LETTERS)
    groups: list[tuple[int, str]] = [(0, "")] * _CLASSES
    for letter in sorted(_LETTERS, key=lambda letter: -count[letter]):
        groups.sort()
        total, letters = groups[0]
        groups[0] = (total + count[letter] + 1, letters + letter)
    return sorted(letters for _, letters in groups)


class Costs:
    """How many positions of usual text have to be compared."""

    def __init__(self, text: str) -> None:
        self.classes = classes(text)
        self._number = {
            letter: number for number, letters in enumerate(self.classes, 1) for letter in letters
        }
        self._text, self.size = text, len(text)
        numbers = [self._number.get(letter, 0) for letter in text]
        self._where: dict[tuple[int, Pair], int] = {}
        for at in range(LENGTH // 2):
            bits: dict[Pair, bytearray] = {}
            for place in range(len(text) - LENGTH):
                pair = numbers[place + 2 * at], numbers[place + 2 * at + 1]
                row = bits.setdefault(pair, bytearray(len(text) // 8 + 1))
                row[place >> 3] |= 1 << (place & 7)
            for pair, row in bits.items():
                self._where[at, pair] = int.from_bytes(row, "little")

    def _class(self, letter: str) -> int:
        return self._number.get(letter, 0)

    def of_window(self, window: str) -> int:
        """A window that the text has costs twice, since its line is looked at."""
        return self.of_set([window]) + self._text.count(window)

    def of_set(self, windows: Iterable[str]) -> int:
        hits = -1
        for at in range(0, LENGTH, 2):
            pairs = {(self._class(window[at]), self._class(window[at + 1])) for window in windows}
            places = 0
            for pair in pairs:
                places |= self._where.get((at // 2, pair), 0)
            hits &= places
        return hits.bit_count()


def chosen(costs: Costs) -> list[str]:
    """Windows such that each phrase has one."""
    of_window: dict[str, set[str]] = {}
    left = {text.decode() for text in phrases()}
    for phrase in left:
        for at in range(len(phrase) - LENGTH + 1):
            of_window.setdefault(phrase[at : at + LENGTH], set()).add(phrase)
    cost = {window: costs.of_window(window) + _COST for window in of_window}
    found = []
    while left:
        best = max(
            sorted(of_window), key=lambda window: len(of_window[window] & left) / cost[window]
        )
        found.append(best)
        left -= of_window[best]
    return sorted(found)


def in_sets(windows: list[str], costs: Costs) -> list[list[str]]:
    """The windows in sets; moves single windows while that lowers the costs."""
    chance = random.Random(1)
    sets = [windows[at::_SETS] for at in range(_SETS)]
    cost = [costs.of_set(one) for one in sets]
    for _ in range(_TRIALS):
        window, new = chance.choice(windows), chance.randrange(_SETS)
        old = next(at for at, one in enumerate(sets) if window in one)
        if old == new:
            continue
        less, more = [other for other in sets[old] if other != window], [*sets[new], window]
        costs_now = costs.of_set(less), costs.of_set(more)
        if sum(costs_now) <= cost[old] + cost[new]:
            sets[old], sets[new] = less, more
            cost[old], cost[new] = costs_now
    print(f"{len(windows)} windows, {sum(cost) / costs.size * 1000:.2f} positions per kB")
    return [sorted(one) for one in sets]


def main() -> int:
    """See the module."""
    costs = Costs(usual_text())
    sets = in_sets(chosen(costs), costs)
    _FILE.write_text(
        '"""Generated: PYTHONPATH=scripts:. .venv/bin/python -m measure.window_sets."""\n\n'
        "from __future__ import annotations\n\n"
        f"CLASSES: tuple[str, ...] = {tuple(costs.classes)!r}\n\n"
        f"SETS: tuple[tuple[str, ...], ...] = {tuple(map(tuple, sets))!r}\n"
    )
    return subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(_FILE)]).returncode


if __name__ == "__main__":
    sys.exit(main())
