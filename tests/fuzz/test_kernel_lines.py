"""Malformed kernel log lines: none crashes a reader, opens or closes a finding, or hides a later
line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.probes.kmsg.follower import KmsgFollower
from slurm_hooks.settings.settings import load
from slurm_hooks.tracking.node import TrackedState
from tests.fuzz.garbage import KERNEL_LINES, LONG, NUMBERS, XID_79, Maker, broken, noise

SEEDS = range(4)
AT_ONCE = 20
"""Lines between two reads of the agent."""


class Log:
    """A kernel log on disk, and the agent's eyes on it: every check of the catalogue judges."""

    def __init__(self, path: Path) -> None:
        self.path, self.seq = path / "kmsg", 0
        self.path.touch()
        self.observer = Observer(8, "boot", TrackedState())
        self.table = load(path / "no-such-file.yaml").active()
        self.kernel("Linux version 6.8.0")
        self.follower = KmsgFollower(self.path)
        self.look()

    def kernel(self, text: str, facility: int = 0) -> None:
        """A record as the kernel writes it."""
        self.raw(self.record(text, facility))

    def record(self, text: str, facility: int = 0) -> bytes:
        self.seq += 1
        return f"{facility << 3 | 4},{self.seq},{self.seq * 1000},-;{text}".encode(
            "utf-8", "surrogateescape"
        )

    def raw(self, line: bytes) -> None:
        with self.path.open("ab") as stream:
            stream.write(line + b"\n")

    def look(self) -> list[tuple[str, str]]:
        """What stands against the node after the agent read what is new."""
        self.observer.read_kernel_log(self.follower.read(), renewed=self.follower.renewed)
        self.follower.renewed = False
        opened = self.observer.judge_kernel_log(self.table)
        return [(entry.finding.code, entry.finding.detail) for entry in opened]


def _torn_header(chance: random.Random, log: Log) -> bytes:
    """A record of the kernel's whose header lost its meaning; what it says would be fatal."""
    fields = ["4", str(log.seq + 1), "1000", "-"]
    fields[chance.randrange(3)] = chance.choice(NUMBERS)
    if chance.random() < 0.2:
        del fields[chance.randrange(1, 4) :]
        return f"{','.join(fields)}".encode() + b";" * chance.randrange(2)
    return f"{','.join(fields)};{XID_79}".encode()


def _torn_xid(chance: random.Random, log: Log) -> bytes:
    """The kernel's record, well-formed, whose text only begins as an Xid does."""
    pci = chance.choice(
        ["0000:53:00", "PCI:", "zzzz:53:00", "0000:53", "\0", "0000:53:0g", "", "🙂"]
    )
    number = chance.choice(
        ["", "x", "-79", "0x4f", LONG, str(2**64), str(10**40), "seventy-nine", " "]
    )
    text = chance.choice(
        [
            f"NVRM: Xid (PCI:0000:53:00): {number}, GPU stopped processing",
            f"NVRM: Xid ({pci}): {number}, GPU stopped processing",
            "NVRM: Xid (PCI:0000:53:00): ",
            "NVRM: Xid",
            f"NVRM: Xid (PCI:{pci}",
            "NVRM: GPU at PCI: has fallen off the",
            "NVRM: " + "GPU " * 1500,
            r"NVRM: Xid (PCI:0000:53:00)\x3",
            r"\xzz\x\x4",
        ]
    )
    return log.record(text)


def _forged(chance: random.Random, log: Log) -> bytes:
    """Somebody wrote to /dev/kmsg: the kernel puts a facility of user space before it."""
    return log.record(XID_79, facility=chance.choice([1, 2, 3, 16, 23, 127, 4095]))


def _dictionary(chance: random.Random, log: Log) -> bytes:
    key = chance.choice(["SUBSYSTEM", "DEVICE", "", "4,9,9,-"])
    return f" {key}={chance.choice(['pci', XID_79, ''])}".encode()


def _old(chance: random.Random, log: Log) -> bytes:
    """A number that was there already: a ring read twice is no second fault."""
    return f"4,{chance.randint(0, log.seq)},1000,-;{XID_79}".encode()


def _overlong(chance: random.Random, log: Log) -> bytes:
    """Longer than any record of the kernel's, with what looks like one wherever a reader may cut."""
    fields = b"7," * chance.randint(5_000, 20_000)
    return b"x" * chance.randint(1, 9_000) + fields + b"-;" + XID_79.encode()


def _far_ahead(chance: random.Random, log: Log) -> bytes:
    """A sequence number that no log ever reaches: if it were accepted, later records would be
    ignored."""
    return f"4,{chance.choice([2**62, 2**63, 2**64 - 1, 2**64])},1000,-;{XID_79}".encode()


def _any(chance: random.Random, log: Log) -> bytes:
    return noise(chance).replace(b"\n", b" ")


def _bent(chance: random.Random, log: Log) -> bytes:
    """A record with bytes lost or changed in its text."""
    head, _, text = log.record(XID_79, facility=1).partition(b";")
    return head + b";" + broken(chance, text).replace(b"\n", b" ")


KINDS = (
    _torn_header,
    _torn_xid,
    _forged,
    _dictionary,
    _old,
    _overlong,
    _far_ahead,
    _any,
    _bent,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_garbage_changes_no_verdict(log: Log, seed: int) -> None:
    """First on a healthy node, then on one with a fault; a new fault afterwards is still found."""
    chance = random.Random(seed)
    half = KERNEL_LINES // len(SEEDS) // 2
    _pour(log, chance, half, [])
    log.kernel(XID_79)
    bad = log.look()
    assert [code for code, _ in bad] == ["XID79"]
    _pour(log, chance, half, bad)
    log.kernel(XID_79.replace("79, GPU has fallen off the bus.", "95, Uncontained: LTC TAG"))
    assert {code for code, _ in log.look()} == {"XID79", "XID95"}


def _pour(log: Log, chance: random.Random, count: int, expected: list[tuple[str, str]]) -> None:
    for _ in range(count // AT_ONCE):
        lines = [chance.choice(KINDS)(chance, log) for _ in range(AT_ONCE)]
        for line in lines:
            log.raw(line)
        assert log.look() == expected, [line[:120] for line in lines]


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__.strip("_"))
def test_each_kind_of_garbage_alone(log: Log, make: Maker) -> None:
    """So that a failure names the kind."""
    chance = random.Random(make.__name__)
    for _ in range(60):
        line = make(chance, log)  # type: ignore[call-arg]
        log.raw(line)
        assert log.look() == [], line[:120]
    log.kernel(XID_79)
    assert [code for code, _ in log.look()] == ["XID79"]


def test_a_record_that_arrives_in_pieces_is_one_record(log: Log) -> None:
    line = log.record(XID_79) + b"\n"
    for at in range(len(line)):
        with log.path.open("ab") as stream:
            stream.write(line[at : at + 1])
        found = [code for code, _ in log.look()]
        assert found == ([] if at < len(line) - 1 else ["XID79"]), at
