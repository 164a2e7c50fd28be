"""gcm's health checks and Holdfast's compared: the same GPUs, the same faults, whole processes in turn.

Both read the same simulated driver through their own NVML binding, on this machine, with this Python.
Only checks that both have are compared. gcm's vbios_mismatch is left out: with the binding that it
pins, it reports every VBIOS as different from itself (bytes compared with text).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.box import Box
from testbed.faults import KINDS
from testbed.faults.arguments import parse
from testbed.h100 import build_library, make_node
from testbed.h100.node import read_state, write_state
from testbed.paths import TREE, cache

from measure.figures import Figure, Series
from measure.node import rivals

ROUNDS = 20
LIMIT_S = 10.0
"""After this time a program counts as hung."""

GCM = (
    *("-c", "gpu_num", "--gpu_num", "8"),
    *("-c", "gpu_temperature", "--gpu_temperature_threshold", "90"),
    *("-c", "ecc_uncorrected_volatile_total", "--ecc_uncorrected_volatile_threshold", "0"),
    *("-c", "row_remap_pending", "-c", "row_remap_failed"),
)
HOLDFAST = ("gpu_count", "gpu_thermal", "gpu_ecc", "gpu_row_remap")
FAULTS = (
    "gpu-count 7",
    "thermal --gpu 4",
    "ecc --gpu 1",
    "row-remap-pending --gpu 2",
    "row-remap-failed --gpu 2",
)
"""The faults that these checks cover."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One simulated node on this machine, and the two programs."""

    folder: Path
    env: Mapping[str, str]
    gcm: tuple[str, ...]
    holdfast: tuple[str, ...]

    @property
    def sim(self) -> Path:
        return self.folder / "sim"

    def run(self, argv: tuple[str, ...]) -> tuple[float, int | None]:
        """(seconds, exit status) of a whole process. Status None: it was killed."""
        begin = time.perf_counter()
        program = subprocess.Popen(
            argv,
            env=dict(self.env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status: int | None = program.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            status = None
            program.kill()
            program.wait(LIMIT_S)
        return time.perf_counter() - begin, status

    @contextmanager
    def broken(self, words: str) -> Iterator[None]:
        """The node with a fault in its NVML state."""
        kind, *args = words.split()
        healthy = read_state(self.sim)
        effects = KINDS[kind].effects
        assert effects is not None  # noqa: S101 - faults of NVML
        changed = effects(parse(kind, KINDS[kind].arguments, args), healthy)
        write_state(
            self.sim, healthy, tuple(f"{key} = {value}" for key, value in changed.nvml.items())
        )
        try:
            yield
        finally:
            write_state(self.sim, healthy, ())


@contextmanager
def _bench(say: Callable[[str], None]) -> Iterator[Bench]:
    program = rivals.gcm(say)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    try:
        make_node(folder / "sim", 0)
        library = build_library(cache())
        config = folder / "holdfast.yaml"
        config.write_text(
            f"paths: {{kmsg: {folder}/sim/kmsg, sysfs: {folder}/sim/sys, run: {folder}/run, state: {folder}/state}}\n"
            f"slurm: {{bin: {folder}, timeout_s: 1}}\n"
            + "checks:\n"
            + "".join(
                f"  {name}: {{mode: drain, limits: {{open_after: 1}}}}\n" for name in HOLDFAST
            )
        )
        env = {
            "PATH": os.defpath,
            "PYTHONPATH": f"{TREE}",
            "LD_LIBRARY_PATH": str(library.parent),
            "NVMLSIM_STATE": str(folder / "sim" / "nvml.state"),
            "HOLDFAST_CONFIG": str(config),
        }
        gcm_argv = (
            str(program),
            "check-nvidia-smi",
            "sim",
            "nagios",
            "--log-folder",
            str(folder / "gcm"),
            *GCM,
        )
        bench = Bench(folder, env, gcm_argv, (sys.executable, "-m", "holdfast", "check", *HOLDFAST))
        bench.run((sys.executable, str(Path(__file__).parent / "inside" / "remember.py")))
        yield bench
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def gcm(_box: Box, say: Callable[[str], None]) -> Figure:
    """Whole processes in turn on a healthy node; then each fault; then a hung driver."""
    holdfast: list[float] = []
    gcm_times: list[float] = []
    with _bench(say) as bench:
        for turn in range(ROUNDS + 1):
            for argv, times in ((bench.holdfast, holdfast), (bench.gcm, gcm_times)):
                took, status = bench.run(argv)
                if status != 0:
                    raise RuntimeError(f"{argv[0]}: status {status} on a healthy node")
                if turn:  # the first one warms the file cache
                    times.append(took)
        say(f"gcm: {ROUNDS} runs of each; now {len(FAULTS)} faults and a hung driver")
        found = {words: _finds(bench, words) for words in FAULTS}
        with bench.broken("nvml-hung"):
            hung_s, status = bench.run(bench.holdfast)
            gcm_s, gcm_status = bench.run(bench.gcm)
    both = sum(first and second for first, second in found.values())
    missed = [words for words, (detected, _) in found.items() if not detected]
    return Figure(
        name="gcm",
        ours=Series(
            what=f"holdfast check, {len(HOLDFAST)} checks of 8 GPUs", seconds=tuple(holdfast)
        ),
        rival=Series(
            what="gcm health_checks, the same ones in one process", seconds=tuple(gcm_times)
        ),
        target="every fault that both have a check for is found, no slower; a hung driver gets an answer",
        met=not missed
        and sorted(holdfast)[len(holdfast) // 2] <= sorted(gcm_times)[len(gcm_times) // 2]
        and status is not None,
        notes=(
            f"of {len(FAULTS)} faults Holdfast detects {len(FAULTS) - len(missed)}, both programs {both}: "
            + ", ".join(
                f"{words.split()[0]} {_detected_by(*result)}" for words, result in found.items()
            ),
            f"with a hung driver: Holdfast exits after {hung_s:.1f} s with status {status}, gcm "
            + (
                f"after {gcm_s:.1f} s with {gcm_status}"
                if gcm_status is not None
                else f"not within {LIMIT_S:g} s"
            ),
            "gcm 0.0.2 starts a process for each call; here all its checks share one. Holdfast's hook reads "
            "the agent's verdict (figure prolog); this is the command without an agent",
        ),
    )


def _finds(bench: Bench, words: str) -> tuple[bool, bool]:
    with bench.broken(words):
        return bench.run(bench.holdfast)[1] == 1, bench.run(bench.gcm)[1] in (1, 2)


def _detected_by(holdfast: bool, gcm: bool) -> str:
    return {(True, True): "both", (True, False): "Holdfast alone", (False, True): "gcm alone"}.get(
        (holdfast, gcm), "neither"
    )
