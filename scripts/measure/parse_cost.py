"""CPU time of reading large inputs: checkpoints, a cluster's history. Needs no box."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from testbed.box import Box
from testbed.paths import TREE

from holdfast.adapters import jsonl
from holdfast.history import store, subject
from measure.figures import Figure, Series
from slurm_hooks.job.checkpoints.find import candidates, judge

ROUNDS = 5
RECORDED = TREE / "tests/data/checkpoints"
NOW = 1.8e9


def _cpu_s(what: Callable[[], object]) -> tuple[float, ...]:
    """CPU seconds of ``what``, ``ROUNDS`` times."""
    took = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        what()
        took.append(time.process_time() - begin)
    return tuple(took)


def checkpoints(_box: Box, say: Callable[[str], None]) -> Figure:
    say("checkpoints: validating 1,000")
    with tempfile.TemporaryDirectory(dir=TREE / ".cache") as name:
        folder = Path(name)
        for step in range(500):
            os.link(RECORDED / "checkpoint_epoch_2.pt", folder / f"step_{step}.pt")
            (folder / f"step-{1000 + step}").mkdir()
            for file in (RECORDED / "step-4").iterdir():
                os.link(file, folder / f"step-{1000 + step}" / file.name)
        found = [judge(candidate) for candidate in candidates(folder)]
        ours = _cpu_s(lambda: [judge(candidate) for candidate in candidates(folder)])
        floor = _cpu_s(lambda: [path.stat() for path in folder.rglob("*")])
    whole = sum(checkpoint.valid for checkpoint in found)
    return Figure(
        name="checkpoints",
        ours=Series(what="1,000 checkpoints judged, processor time", seconds=ours),
        rival=Series(what="listing and stat of the same files", seconds=floor),
        target="all found whole, at most 1 s",
        met=whole == 1000 and max(ours) <= 1.0,
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
