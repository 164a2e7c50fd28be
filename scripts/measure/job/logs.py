"""Logs of healthy jobs of several kinds, synthetic and varied: no two lines are equal."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache, partial

from testbed.paths import TREE

_MADE_UP = 2_000
"""So many words that are in no page: names of variables, other languages."""


@cache
def words() -> list[str]:
    """Words of a text that is not about failures, as often as there, and some that are made up."""
    chance = random.Random(7)
    made_up = ["".join(chance.choices("etaoinshrdlucmfwygpbvk", k=7)) for _ in range(_MADE_UP)]
    return re.findall("[A-Za-z]+", (TREE / "LICENSE").read_text()) + made_up


def _sentence(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(words(), k=count))


def _log(
    lines: Callable[[random.Random, int], list[str]], size: int, seed: int, between: str = "\n"
) -> bytes:
    """``lines``: some lines more, for the numbers 1, 2, …, until there are ``size`` characters."""
    chance, text, length, n = random.Random(seed), list[str](), 0, 0
    while length < size:
        n += 1
        more = lines(chance, n)
        text += more
        length += sum(map(len, more))
    return between.join(text).encode() + b"\n"


def _training(chance: random.Random, n: int) -> list[str]:
    """What Megatron, torchtitan and the HF trainer print."""
    loss = chance.random() * 3
    return [
        f" [2026-08-01 10:{n // 60 % 60:02}:{n % 60:02}] iteration {n:8}/  500000 | consumed samples: "
        f"{n * 512:12} | elapsed time per iteration (ms): {5000 + chance.random() * 900:.1f} | learning "
        f"rate: {chance.random():.3E} | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {loss / 9:.3f} |"
        f" number of skipped iterations:   0 | number of nan iterations:   0 |",
        f"[rank{n % 64}]: 2026-08-01 10:00:00,{n % 1000:03} INFO step: {n}  loss: {loss:.4f}  "
        f"memory: {chance.random() * 80:.2f}GiB(81.2%)  tps: {chance.randrange(9000)}  mfu: 41.{n % 10}%",
        f"{{'loss': {loss:.4f}, 'grad_norm': {chance.random()}, 'learning_rate': {chance.random()}, "
        f"'epoch': {n / 100:.2f}}}",
    ]


def _nccl(chance: random.Random, _: int) -> list[str]:
    """NCCL with ``NCCL_DEBUG=INFO``."""
    a, b, c = (chance.randrange(64) for _ in range(3))
    process = f"{chance.randrange(1 << 20)}:{chance.randrange(1 << 20)}"
    return [
        (
            f"worker-{chance.randrange(512)}:{process} [{a % 8}] NCCL INFO "
            + chance.choice(
                [
                    f"Channel {a:02}/0 : {a}[{b % 8}] -> {b}[{c % 8}] via P2P/CUMEM/read",
                    f"Channel {a:02}/0 : {a}[{b % 8}] -> {b}[{c % 8}] [send] via NET/IB/{c % 8}/GDRDMA",
                    f"Trees [0] {a}/-1/-1->{b}->{c} [1] {b}/-1/-1->{a}->-1 [2] -1/-1/-1->{c}->{a}",
                    f"Connected all rings, use ring PXN {a} GDR {b}",
                    f"NET/IB : Using [0]mlx5_{a % 8}:1/IB [1]mlx5_{b % 8}:1/IB [RO]; OOB eth0:10.0.{b}.{c}<0>",
                    f"Setting affinity for GPU {a % 8} to {chance.getrandbits(64):x},{chance.getrandbits(64):x}",
                    f"NCCL_IB_TIMEOUT set by environment to {a}.",
                    f"comm 0x{chance.getrandbits(48):x} rank {a} nRanks 64 nNodes 8 localRanks 8 MNNVL 0",
                ]
            )
        )
    ]


def _bars(chance: random.Random, n: int) -> list[str]:
    """Progress bars."""
    return [
        (
            f"\rEpoch {n // 100}: {n % 100:3}%|{'█' * (n % 100 // 10):10}| {n % 100}/100 "
            f"[00:{n % 60:02}<00:09, {chance.random() * 9:.2f}it/s, loss={chance.random():.4f}]"
        )
    ]


def _records(chance: random.Random, n: int) -> list[str]:
    """JSON, as structured loggers print it."""
    return [
        (
            f'{{"ts": "2026-08-01T10:00:{n % 60:02}.{n % 1000:03}Z", "level": "INFO", "rank": {n % 64}, '
            f'"trace_id": "{chance.getrandbits(128):032x}", "message": "{_sentence(chance, 6)}", '
            f'"error": null, "exc_info": null, "loss": {chance.random()}}}'
        )
    ]


def _tracebacks(chance: random.Random, n: int) -> list[str]:
    """Warnings of all ranks, with the source code that they are about."""
    rank, (one, two, three) = f"[rank{n % 512}]:", chance.choices(words(), k=3)
    return [
        f'{rank}   File "/opt/venv/lib/python3.12/site-packages/{one}/{two}.py", line {n}, in {one}',
        f"{rank}     {two} = self.{three}({one}, size={n})",
        f"{rank} UserWarning: {three} {one} is deprecated; use {two}",
        f"{rank}   return {two}({one})",
    ]


def _prose(chance: random.Random, _: int) -> list[str]:
    """Text, as of generated samples."""
    return [(_sentence(chance, chance.randrange(4, 30)) + chance.choice(".,;:!?"))]


LOGS: dict[str, Callable[[int, int], bytes]] = {
    "training": partial(_log, _training),
    "NCCL INFO": partial(_log, _nccl),
    "progress bars": partial(_log, _bars, between=""),
    "JSON records": partial(_log, _records),
    "tracebacks": partial(_log, _tracebacks),
    "prose": partial(_log, _prose),
}
"""Kind → a log of about so many characters; other seeds give other lines."""
