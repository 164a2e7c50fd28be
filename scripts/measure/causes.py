"""Accuracy and speed of ``holdfast diagnose`` on a folder of logs.

The folder holds logs and ``labels.tsv``, with a line for each log: its name, the class that its cause has
(``none``: nothing failed, or the log does not tell), a part of the line that is the cause, and the hosts
that the log makes suspect, separated by commas (``-``: none). Separated by tabs.

    PYTHONPATH=scripts:. .venv/bin/python -m measure.causes FOLDER
    PYTHONPATH=scripts:. .venv/bin/python -m measure.causes --speed
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from testbed.paths import TREE

from slurm_hooks.job.diagnosis.causes import CLASS_OF, Engine
from slurm_hooks.job.diagnosis.line import Diagnosis

_BLOCK_BYTES = 256 << 10


@dataclass(frozen=True, kw_only=True)
class Label:
    """What a person found to be the cause."""

    name: str
    kind: str
    root: str
    hosts: frozenset[str]


def labels(folder: Path) -> Iterator[Label]:
    """The lines of ``labels.tsv``."""
    for line in (folder / "labels.tsv").read_text().splitlines():
        name, kind, root, hosts = line.split("\t")
        known = frozenset() if hosts == "-" else frozenset(hosts.split(","))
        yield Label(name=name, kind=kind, root=root, hosts=known)


def diagnosed(data: bytes) -> Diagnosis:
    """The diagnosis of one log."""
    engine = Engine()
    for begin in range(0, len(data), _BLOCK_BYTES):
        engine.feed("log", data[begin : begin + _BLOCK_BYTES])
    engine.end("log")
    return engine.diagnosis()


def accuracy(folder: Path) -> None:
    """Prints how often class, line and hosts are right, and each log that is wrong."""
    failed = right_class = right_line = silent = clean = false = told = named = 0
    for label in labels(folder):
        found = diagnosed((folder / label.name).read_bytes())
        kind = CLASS_OF[found.cause.signature.kind] if found.cause else "none"
        text = found.cause.line.text.strip() if found.cause else ""
        wrong = kind != label.kind or (label.kind != "none" and label.root not in text)
        if wrong:
            print(f"{label.name}: {label.kind} expected, {kind}: {text[:100]}")
        if label.kind == "none":
            clean += 1
            false += found.cause is not None
            continue
        failed += 1
        silent += found.cause is None
        right_class += kind == label.kind
        right_line += label.root in text and bool(text)
        told += bool(label.hosts)
        named += bool(label.hosts) and label.hosts <= set(found.suspects)
    print(f"logs of failures: {failed}; class right {right_class}, line right {right_line}")
    print(f"no answer: {silent}; hosts named: {named} of {told}")
    print(f"logs without a cause: {clean}; false causes: {false}")


def training_log(lines: int) -> bytes:
    """What Megatron, NCCL and torchtitan print, synthetic."""
    text = []
    for n in range(lines // 3):
        text += [
            f" [2026-08-01 10:{n // 60 % 60:02}:{n % 60:02}] iteration {n:8}/  500000 | consumed samples: "
            f"{n * 512:12} | elapsed time per iteration (ms): {5000 + n % 977}.{n % 10} | learning rate: "
            f"3.000E-04 | lm loss: {2 - n % 997 / 1000:.6E} | loss scale: 1.0 | grad norm: 0.{n % 911:03} |",
            f"worker-3:12345:12399 [2] NCCL INFO Channel {n % 24:02}/0 : {n % 64}[3] -> {n % 63}[4] via P2P",
            f"[rank{n % 64}]: 2026-08-01 10:00:00,123 INFO step: {n}  loss: {n % 997 / 500:.4f}  "
            f"memory: 64.32GiB(81.2%)  tps: {7000 + n % 500}  mfu: 41.{n % 10}%",
        ]
    return "\n".join(text).encode() + b"\n"


def _records(lines: int) -> bytes:
    """JSON, as structured loggers print it: each line has an ID and words of its own."""
    chance, text = random.Random(1), []
    for n in range(lines):
        message = " ".join(chance.choices(_words(), k=5))
        text.append(
            f'{{"ts": "2026-08-01T10:00:{n % 60:02}.{n % 1000:03}Z", "level": "INFO", "rank": {n % 64}, '
            f'"trace_id": "{chance.getrandbits(128):032x}", "message": "{message}", "loss": {n % 997 / 500}}}'
        )
    return "\n".join(text).encode() + b"\n"


def _bars(lines: int) -> bytes:
    """Progress bars."""
    return "".join(
        f"\rEpoch {n // 100}: {n % 100:3}%|{'█' * (n % 100 // 10):10}| {n % 100}/100 "
        f"[00:{n % 60:02}<00:09, 2.{n % 97}it/s, loss={n % 997 / 500}]"
        for n in range(lines)
    ).encode()


def _tracebacks(lines: int) -> bytes:
    """Warnings of all ranks, with the source code that they are about."""
    chance, text = random.Random(2), []
    for n in range(lines // 4):
        rank, (one, two, three) = f"[rank{n % 512}]:", chance.choices(_words(), k=3)
        text += [
            f'{rank}   File "/opt/venv/lib/python3.12/site-packages/{one}/{two}.py", line {n}, in {one}',
            f"{rank}     {two} = self.{three}({one}, size={n})",
            f"{rank} UserWarning: {three} {one} is deprecated; use {two}",
            f"{rank}   return {two}({one})",
        ]
    return "\n".join(text).encode() + b"\n"


def _prose(lines: int) -> bytes:
    """Text, as of generated samples."""
    chance = random.Random(3)
    return b"".join(" ".join(chance.choices(_words(), k=12)).encode() + b"\n" for _ in range(lines))


@cache
def _words() -> list[str]:
    """The words of a text that is not about failures."""
    return re.findall("[A-Za-z]+", (TREE / "LICENSE").read_text())


LOGS: dict[str, Callable[[int], bytes]] = {
    "training": training_log,
    "progress bars": _bars,
    "JSON records": _records,
    "tracebacks": _tracebacks,
    "prose": _prose,
}
"""What a healthy job prints, synthetic: the number of lines → the log."""


def speed() -> None:
    """Prints the bytes per second of processor time for each kind of log, the best of five times."""
    for name, log in LOGS.items():
        data = log(40_000)
        diagnosed(data)
        seconds = min(_processor_s(data) for _ in range(5))
        print(
            f"{name}: {len(data) / 1e6:.0f} MB, {len(data) / 1e6 / seconds:.0f} MB/s of processor time"
        )


def _processor_s(data: bytes) -> float:
    begin = time.process_time()
    diagnosed(data)
    return time.process_time() - begin


def main(argv: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="measure.causes", description=__doc__.splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("folder", nargs="?", type=Path, help="logs and labels.tsv")
    parser.add_argument("--speed", action="store_true", help="measure speed on synthetic logs")
    args = parser.parse_args(argv)
    if args.folder:
        accuracy(args.folder)
    if args.speed or not args.folder:
        speed()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
