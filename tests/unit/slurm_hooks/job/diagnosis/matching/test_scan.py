"""Reading whole blocks finds the same as trying every signature on every line."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_hooks.job.diagnosis.causes import Diagnosis, Engine
from slurm_hooks.job.diagnosis.lines.launcher_lines import ATTEMPT, PREFIX, node_fault_in
from slurm_hooks.job.diagnosis.lines.source_code import is_ignored, is_source
from slurm_hooks.job.diagnosis.matching.match import failure_in, progress_in
from slurm_hooks.job.diagnosis.matching.phrases import phrases
from slurm_hooks.job.diagnosis.matching.scan import Found, Memory, Scanner
from slurm_hooks.job.diagnosis.matching.windows import Finder
from slurm_hooks.job.signatures import Kind, Weight

EXAMPLES = [
    line.split("\t", 1)[1]
    for line in (Path(__file__).parents[5] / "data" / "signatures.tsv").read_text().splitlines()
]
HEALTHY = [
    " [2026-08-01 10:00:{n:02d}] iteration {n:8d}/  500000 | lm loss: 1.{n} | number of nan iterations: 0 |",
    "\r{n}%|###   | {n}/100 [00:01<00:02, 2.88it/s]",
    'worker-{n}:12:34 [{n}] NCCL INFO Channel {n}/0 : {n}[3] -> 4[3] via "P2P"',
    '{{"level": "info", "error": null, "step": {n}, "trace": "0af7{n}bb1", "failed": 0}}',
    '  File "/opt/x.py", line {n}, in f',
    "    raise ValueError(f'bad sample {n}')",
    "Epoch {n}: validation accuracy 0.{n}",
    "[rank{n}]: W0801 10:00:00 x.py:{n}] the memory of a group is unable to grow ✓ naïve Ünïcode",
    "Saved checkpoint at step {n}",
    "exit code: {n}",
    "OSError: [Errno {n}] something",
    "holdfast: attempt {n} of job 7 starts on w-1",
    "holdfast: decision: requeue: bad node w-{n} (XID79: GPU 3 fell off the bus)",
    "",
    "Training completed",
]


class EveryLine:
    """The plain way: all signatures on each line."""

    def __init__(self, _memory: Memory) -> None:
        self._output = b""

    def feed(self, data: bytes, *, wants: Callable[[], bool]) -> Iterator[Found]:
        self._output += data
        yield from ()

    def end(self, *, wants: Callable[[], bool]) -> Iterator[Found]:
        at, number = 0, 1
        for line in self._output.replace(b"\r", b"\n").split(b"\n"):
            before = self._output[max(0, at - 4096) : at]
            yield from self._line(line.decode("utf-8", "replace"), number, before, wants)
            at += len(line) + 1
            number += self._output[at - 1 : at] == b"\n"

    def _line(
        self, text: str, number: int, before: bytes, wants: Callable[[], bool]
    ) -> Iterator[Found]:
        if text.startswith(PREFIX):
            fault = node_fault_in(text)
            if fault or ATTEMPT.match(text):
                yield Found(number, text, fault[0] if fault else None, before)
            return
        row = failure_in(text)
        if row is None:
            row = progress_in(text) if wants() else None
            if row and not is_source(text, before):
                yield Found(number, text, row, before)
        elif not is_source(text, before) and not is_ignored(text, before):
            if not wants() and row.weight is not Weight.NONE and row.kind is not Kind.SCHEDULER:
                for earlier in before.replace(b"\r", b"\n").split(b"\n"):
                    shown = earlier.decode("utf-8", "replace")
                    step = None if shown.startswith(PREFIX) else progress_in(shown)
                    if step and not is_source(shown, before[: before.find(earlier)]):
                        yield Found(0, shown, step, b"")
            yield Found(number, text, row, before)


def log(chance: random.Random, lines: int) -> bytes:
    """A random mixture of healthy lines and failures, with any kind of line end and any bytes."""
    text = bytearray()
    for _ in range(lines):
        if chance.random() < 0.15:
            line = chance.choice(EXAMPLES).encode()
        else:
            line = chance.choice(HEALTHY).format(n=chance.randrange(100)).encode()
        spoil = chance.random()
        if spoil < 0.02:
            line = chance.randbytes(chance.randrange(60)).replace(b"\n", b"") + line
        elif spoil < 0.04:
            line = line.decode().encode("utf-16")
        text += line + chance.choice([b"\n", b"\n", b"\n", b"\r\n", b"\r"])
    return bytes(text)


def diagnosed(data: bytes, cuts: list[int]) -> Diagnosis:
    engine = Engine()
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        engine.feed("log", data[begin:end])
    engine.end("log")
    return engine.diagnosis()


@pytest.mark.parametrize("seed", range(60))
def test_blocks_give_what_every_line_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    data = log(chance, chance.choice([1, 5, 40, 300]))
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice([0, 1, 20])))
    blocks = diagnosed(data, cuts)
    assert blocks == diagnosed(data, [])
    monkeypatch.setattr("slurm_hooks.job.diagnosis.causes.Scanner", EveryLine)
    assert blocks == diagnosed(data, [])


@pytest.mark.parametrize("seed", range(5))
def test_what_was_learned_from_one_output_does_not_change_the_next(seed: int) -> None:
    chance = random.Random(1000 + seed)
    memory = Memory()
    for _ in range(20):
        data = log(chance, 40)
        known = list(Scanner(memory).feed(data + b"\n", wants=lambda: True))
        assert known == list(Scanner(Memory()).feed(data + b"\n", wants=lambda: True))


@pytest.mark.parametrize("seed", range(3))
def test_windows_find_each_phrase_wherever_it_is(seed: int) -> None:
    chance = random.Random(2000 + seed)
    finder = Finder(phrases())
    for phrase, codes in phrases().items():
        lines = [chance.randbytes(chance.randrange(40)).replace(b"\n", b" ") for _ in range(5)]
        begin = len(b"\n".join(lines[:2])) + 1
        lines[2] += phrase.removesuffix(b"\n")
        if not phrase.endswith(b"\n"):
            lines[2] += chance.choice([b"", b"x", b" 7"])
        found = finder.lines(b"\n".join(lines) + b"\n")
        assert codes <= found[begin]
