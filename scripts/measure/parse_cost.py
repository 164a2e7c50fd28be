"""CPU time of reading large inputs: checkpoints, a cluster's history. Needs no box."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from testbed.box import Box
from testbed.paths import TREE

from holdfast.adapters import jsonl
from holdfast.history import store, subject
from measure.figures import Figure, Series
from measure.job import checkpoint_families
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import candidates, judge

ROUNDS = 5
_CHECKPOINTS = 1000
NOW = 1.8e9


def _cpu_s(what: Callable[[], object]) -> tuple[float, ...]:
    """CPU seconds of ``what``, ``ROUNDS`` times."""
    took = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        what()
        took.append(time.process_time() - begin)
    return tuple(took)


def _judge_all(folder: Path) -> list[Checkpoint]:
    return [judge(candidate) for candidate in candidates(folder)]


def _stat_all(folder: Path) -> list[os.stat_result]:
    return [path.stat() for path in folder.rglob("*")]


def checkpoints(_box: Box, say: Callable[[str], None]) -> Figure:
    """The slowest of all families."""
    found: dict[str, tuple[tuple[float, ...], tuple[float, ...], str]] = {}
    whole = True
    (TREE / ".cache").mkdir(exist_ok=True)
    for family in checkpoint_families.FAMILIES:
        say(f"checkpoints: validating {_CHECKPOINTS:,} of {family}")
        with tempfile.TemporaryDirectory(dir=TREE / ".cache") as name:
            folder = Path(name) / "c"
            files = checkpoint_families.write(family, folder, _CHECKPOINTS)
            valid = sum(one.valid for one in _judge_all(folder))
            ours = _cpu_s(partial(_judge_all, folder))
            floor = _cpu_s(partial(_stat_all, folder))
        whole &= valid == _CHECKPOINTS
        note = f"{family}: {valid:,} whole of {files:,} files, median {median(ours):.2f} s"
        found[family] = ours, floor, note
    slowest = max(found, key=lambda family: median(found[family][0]))
    ours, floor, _ = found[slowest]
    return Figure(
        name="checkpoints",
        ours=Series(
            what=f"{_CHECKPOINTS:,} checkpoints judged, processor time ({slowest}, the slowest family)",
            seconds=ours,
        ),
        rival=Series(what="listing and stat of the same files", seconds=floor),
        target="of each family all found whole, at most 1 s",
        met=whole and all(max(times) <= 1.0 for times, _, _ in found.values()),
        notes=tuple(note for _, _, note in found.values()),
    )


def ranking(_box: Box, say: Callable[[str], None]) -> Figure:
    say("ranking: 1,000 nodes with 21 events each")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "history"
        folder.mkdir()
        for number in range(1000):
            node, uuid = f"w{number}", f"GPU-{number:08d}"
            gpus = [{"gpu": 0, "gpu_uuid": uuid}]
            lines = jsonl.encode({"t": NOW, "event": "inventory", "node": node, "gpus": gpus})
            fault = {"event": "drained", "node": node, "code": "XID79", "gpu_uuid": uuid}
            lines += b"".join(jsonl.encode({**fault, "t": NOW - n * 3600}) for n in range(20))
            store.append(folder, node, lines, max_bytes=1 << 20)
        events = store.read(folder).events
        ours = _cpu_s(lambda: subject.ranking(events, NOW))
        floor = _cpu_s(lambda: store.read(folder))
    return Figure(
        name="ranking",
        ours=Series(what="history of 1,000 nodes ranked, processor time", seconds=ours),
        rival=Series(what="reading its 21,000 events", seconds=floor),
        target="at most 10 s",
        met=max(ours) <= 10.0,
    )
