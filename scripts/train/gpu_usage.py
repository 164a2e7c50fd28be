"""Records how busy the GPUs of this node are, and prints a summary at the end.

One JSON line per GPU and sample. Stops on SIGTERM, which Slurm sends at the end of the job. A GPU that
does not answer is recorded with the error and asked again at the next sample.

Example: srun --overlap --ntasks-per-node=1 python3 gpu_usage.py --output /mnt/training/runs/7/gpus &
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

IDLE_PERCENT = 5
"""A GPU at or below this utilization is idle in the summary."""


def options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--output", type=Path, required=True, help="folder on a shared mount")
    parser.add_argument("--interval-s", type=float, default=10.0, help="seconds between samples")
    parser.add_argument("--samples", type=int, help="stop after this many (default: at SIGTERM)")
    return parser.parse_args(argv)


def sample(pynvml: Any) -> Iterator[dict[str, object]]:
    """One record per GPU of this node; ``error`` instead of figures where NVML gives none."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        record: dict[str, object] = {"gpu": index}
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            record["used_percent"] = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
            record["memory_bytes"] = pynvml.nvmlDeviceGetMemoryInfo(handle).used
            record["temperature_c"] = pynvml.nvmlDeviceGetTemperature(
                handle, pynvml.NVML_TEMPERATURE_GPU
            )
            record["power_w"] = round(pynvml.nvmlDeviceGetPowerUsage(handle) / 1000, 1)
        except pynvml.NVMLError as error:
            record["error"] = str(error)
        yield record


def summary(host: str, records: Iterable[dict[str, Any]]) -> str:
    """Mean utilization, idle share and the number of samples without an answer, a line per GPU."""
    gpus: dict[int, list[dict[str, Any]]] = {}
    for record in records:
        gpus.setdefault(record["gpu"], []).append(record)
    lines = []
    for gpu, all_of_it in sorted(gpus.items()):
        used = [record["used_percent"] for record in all_of_it if "used_percent" in record]
        silent = len(all_of_it) - len(used)
        if used:
            idle = sum(percent <= IDLE_PERCENT for percent in used)
            text = f"{sum(used) / len(used):.0f} % used, idle in {idle} of {len(used)} samples"
        else:
            text = "no figures"
        lines.append(f"{host} GPU {gpu}: {text}" + (f", no answer in {silent}" if silent else ""))
    return "\n".join(lines)


def main() -> int:
    args = options()
    try:
        import pynvml  # noqa: PLC0415 - a message instead of a traceback

        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - no package, no driver, no GPU: all the same here
        print(f"gpu_usage.py: NVML does not answer: {error}", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    host = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    args.output.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, Any]] = []
    with (args.output / f"{host}.jsonl").open("a", encoding="utf-8") as file:
        for turn in range(args.samples) if args.samples else itertools.count():
            if stop.wait(args.interval_s if turn else 0):
                break
            at = round(time.time(), 3)
            taken = list(sample(pynvml))
            file.writelines(json.dumps({"t": at, "host": host, **one}) + "\n" for one in taken)
            file.flush()
            records += taken
    print(summary(host, records), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
