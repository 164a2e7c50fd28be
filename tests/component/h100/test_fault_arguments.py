"""Faults are written in plain words, and a misspelt one is refused with one clear line."""

from __future__ import annotations

import pytest
from testbed.errors import SandboxError
from testbed.faults import KINDS
from testbed.faults.arguments import Args, parse, shown


def read(text: str) -> Args:
    kind, *words = text.split()
    return parse(kind, KINDS[kind].arguments, words)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("xid 79 --gpu 3", {"number": 79, "gpu": 3}),
        ("xid --gpu=3 79", {"number": 79, "gpu": 3}),
        ("xid 13", {"number": 13, "gpu": 0}),
        ("gpu-lost --gpu 5", {"gpu": 5}),
        ("gpu-count 7", {"count": 7}),
        ("recovery-action reset --gpu 2", {"action": "reset", "gpu": 2}),
        ("nvlink-down --gpu 1 --link 17", {"gpu": 1, "link": 17}),
        ("ib-down", {"hca": "mlx5_0"}),
        ("ib-down --hca mlx5_3", {"hca": "mlx5_3"}),
        ("link-flap --times 5", {"hca": "mlx5_0", "times": 5}),
        ("pcie-width --width 8", {"width": 8, "gpu": 0}),
        ("nvml-slow --ms 250", {"ms": 250}),
        ("mount-hung /mnt/inference", {"path": "/mnt/inference"}),
        ("clock-skew --seconds -30", {"seconds": -30}),
        ("thermal", {"gpu": 0}),
        ("power-brake", {}),
        ("kernel-line --level 6 x[1]:", {"text": "x[1]:", "level": 6}),
    ],
)
def test_understood(text: str, args: Args) -> None:
    assert read(text) == args
    kind = text.split()[0]
    assert read(shown(kind, KINDS[kind].arguments, args)) == args  # and reads back


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("xid", "xid: NUMBER is missing (usage: xid NUMBER [--gpu 0-7])"),
        ("xid seventy", "xid seventy: NUMBER takes a number from 1 to 999"),
        ("xid 79 --gpu 8", "--gpu takes a number from 0 to 7"),
        ("xid 79 --gpu", "--gpu needs a value"),
        ("xid 79 --gup 3", "unknown option --gup; did you mean '--gpu'?"),
        ("xid 79 80", "unexpected argument '80'"),
        ("gpu-count 8", "COUNT takes a number from 0 to 7"),
        ("ib-down --hca mlx5_9", "--hca cannot be 'mlx5_9'; did you mean 'mlx5_"),
        ("mount-hung /mnt/trainig", "did you mean '/mnt/training'?"),
        ("recovery-action rebot", "did you mean 'reboot'?"),
        ("pcie-width", "--width is missing"),
        ("power-brake now", "unexpected argument 'now'"),
        ("kernel-line x --level 8", "--level takes a number from 0 to 7"),
    ],
)
def test_refused_in_one_line_with_the_usage(text: str, problem: str) -> None:
    with pytest.raises(SandboxError) as refused:
        read(text)
    said = str(refused.value)
    assert problem in said
    assert "\n" not in said
    assert f"(usage: {KINDS[text.split()[0]].usage})" in said
