"""Loads every GPU with torch. ``burn``: repeats the same bf16 product and compares the results with
the first one and between GPUs. ``bandwidth``: copies inside GPU memory and over PCIe, and compares.

It needs only torch with CUDA and imports nothing of Holdfast, so that any Python can run this file.
It prints one JSON object for each GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import torch

_SIDE = 8192
"""Side of the square matrices: 3 x 128 MiB in bf16, far larger than the caches."""
_BATCH = 20
_COPY_BYTES = 4 << 30
_PCIE_BYTES = 256 << 20
_COPIES = 20


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("mode", choices=("burn", "bandwidth"))
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    burning = args.mode == "burn"
    found = burn(devices, args.seconds) if burning else [bandwidth(device) for device in devices]
    for index, values in enumerate(found):
        name = torch.cuda.get_device_name(index)
        sys.stdout.write(json.dumps({"gpu": index, "name": name, **values}) + "\n")
        sys.stdout.flush()
    return 0


def burn(devices: list[Any], seconds: float) -> list[dict[str, Any]]:
    """Load all GPUs at the same time, as power and cooling are shared. ``tflops``: median of the
    batches without the first. ``mismatches``: results that differ from the first one of GPU 0.
    """
    generator = torch.Generator().manual_seed(20241121)
    host = [torch.randn(_SIDE, _SIDE, generator=generator).to(torch.bfloat16) for _ in range(2)]
    work = [[matrix.to(device) for matrix in host] for device in devices]
    results = [torch.empty_like(a) for a, _ in work]
    first: Any = None
    rates: list[list[float]] = [[] for _ in devices]
    mismatches = [0] * len(devices)
    begin = time.monotonic()
    rounds = 0
    while rounds < 2 or time.monotonic() - begin < seconds:
        timed = [_batch(a, b, c) for (a, b), c in zip(work, results)]  # noqa: B905 - Python 3.9
        for index, (start, end) in enumerate(timed):
            torch.cuda.synchronize(devices[index])
            if rounds:
                rates[index].append(2 * _SIDE**3 * _BATCH / (start.elapsed_time(end) * 1e9))
            if first is None:
                first = results[0].cpu()
            if not torch.equal(results[index].cpu(), first):
                mismatches[index] += 1
        rounds += 1
    finite = bool(torch.isfinite(first.float()).all())
    return [
        {"tflops": sorted(r)[len(r) // 2], "mismatches": m, "finite": finite, "rounds": rounds}
        for r, m in zip(rates, mismatches)  # noqa: B905 - Python 3.9
    ]


def _batch(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    with torch.cuda.device(a.device):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(_BATCH):
            torch.matmul(a, b, out=c)
        end.record()
    return start, end


def bandwidth(device: Any) -> dict[str, Any]:
    """GB/s: ``hbm_gb_s`` counts read plus write; ``h2d_gb_s``, ``d2h_gb_s``: one direction each."""
    source = torch.randint(0, 256, (_COPY_BYTES,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    hbm = 2 * _copies(device, target, source)
    same = bool(torch.equal(target, source))
    host = torch.randint(0, 256, (_PCIE_BYTES,), dtype=torch.uint8).pin_memory()
    back = torch.empty_like(host).pin_memory()
    on_gpu = torch.empty(_PCIE_BYTES, dtype=torch.uint8, device=device)
    h2d = _copies(device, on_gpu, host)
    d2h = _copies(device, back, on_gpu)
    same = same and bool(torch.equal(back, host))
    return {"hbm_gb_s": hbm, "h2d_gb_s": h2d, "d2h_gb_s": d2h, "same": same}


def _copies(device: Any, target: Any, source: Any) -> float:
    with torch.cuda.device(device):
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(_COPIES):
            target.copy_(source, non_blocking=True)
        end.record()
        torch.cuda.synchronize()
    return float(source.numel() * _COPIES / (start.elapsed_time(end) * 1e6))


if __name__ == "__main__":
    sys.exit(main())
