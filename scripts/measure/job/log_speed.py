"""Speed and memory of diagnosis while a job prints, for each kind of text. Needs no box."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from testbed.box import Box
from testbed.paths import TREE

from measure.causes import diagnosed
from measure.figures import Figure, Series
from measure.job.logs import LOGS
from slurm_hooks.job.diagnosis.matching.phrases import phrases

SIZE = 4 << 20
ROUNDS = 16
"""Together 64 MiB of each kind of text. Each round begins without what an earlier one has learnt of its lines."""
GOAL_BYTES_S = 100e6
_STREAM_BYTES = 1 << 30
_MAX_GROWTH_KIB = 4096

_STREAM = f"""
import resource
from measure.job.logs import LOGS
from slurm_hooks.job.diagnosis.causes import Engine
texts = [log(1 << 20, 3) for log in LOGS.values()]
engine = Engine(launcher=False)
def feed(count):
    for number in range(count):
        engine.feed("x", texts[number % len(texts)])
feed(16)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
feed({_STREAM_BYTES >> 20})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def log(_box: Box, say: Callable[[str], None]) -> Figure:
    ours, grep, notes = {}, {}, []
    for kind, text in LOGS.items():
        say(f"log: diagnosing {ROUNDS} x {SIZE >> 20} MiB: {kind}")
        data = text(SIZE, 1)
        ours[kind] = tuple(len(data) / _cpu_s(diagnosed, data) for _ in range(ROUNDS))
        reading = len(data) / _cpu_s(lambda data: data.decode().splitlines(), data)
        grep[kind] = len(data) / _grep_s(data)
        notes.append(
            f"{kind}: {_mb(median(ours[kind]))} MB/s; grep -F -i for the same phrases: {_mb(grep[kind])}, "
            f"splitting into lines: {_mb(reading)}"
        )
    say("log: memory over 1 GiB")
    growth_kib = _growth_kib()
    notes.append(
        f"1 GiB of all kinds as a stream: {growth_kib / 1024:.1f} MiB more than after 16 MiB"
    )
    slowest = min(ours, key=lambda kind: median(ours[kind]))
    return Figure(
        name="log",
        ours=Series(
            what=f"1 MB of a log diagnosed, processor time ({slowest}, the slowest)",
            seconds=tuple(1e6 / speed for speed in ours[slowest]),
        ),
        rival=Series(what="grep -F -i for the same phrases", seconds=(1e6 / grep[slowest],)),
        target="at least 100 MB/s in each kind of text, constant memory",
        met=median(ours[slowest]) >= GOAL_BYTES_S and growth_kib <= _MAX_GROWTH_KIB,
        notes=tuple(notes),
    )


def _cpu_s(what: Callable[[bytes], object], data: bytes) -> float:
    begin = time.process_time()
    what(data)
    return time.process_time() - begin


def _grep_s(data: bytes) -> float:
    """Processor time of grep for the phrases that diagnosis looks for."""
    with tempfile.TemporaryDirectory() as name:
        log, wanted = Path(name) / "log", Path(name) / "phrases"
        log.write_bytes(data)
        wanted.write_bytes(b"\n".join(phrase.strip(b"\n") for phrase in phrases()) + b"\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            ["grep", "-a", "-c", "-i", "-F", "-f", wanted, log],
            stdout=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _growth_kib() -> int:
    done = subprocess.run(
        [sys.executable, "-c", _STREAM],
        cwd=TREE,
        env={"PYTHONPATH": f"{TREE / 'scripts'}:{TREE}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def _mb(speed: float) -> str:
    return f"{speed / 1e6:.0f}"
