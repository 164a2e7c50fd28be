"""A node's `/sim`: the state file of the simulated NVML, the kernel log, the sysfs tree."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from testbed.h100 import kmsg, sysfs
from testbed.h100.board import GPU_BUSES, Identity, identity, successor

STATE = "nvml.state"
KMSG = "kmsg"
SYSFS = "sys"

_FAULTS = "# --- faults; above: what the node is when healthy ---"


def make_node(sim: Path, node_index: int, gpus: int = 8) -> None:
    """Write the files of a healthy node into the folder ``sim``, created if absent.

    Raises ``ValueError`` unless the board has room for ``gpus``.
    """
    if not 1 <= gpus <= len(GPU_BUSES):
        raise ValueError(f"a board has 1 to {len(GPU_BUSES)} GPUs, not {gpus}")
    sim.mkdir(parents=True, exist_ok=True)
    state = {"count": str(gpus)}
    for gpu in range(gpus):
        state |= _identity_lines(gpu, identity(node_index, gpu))
    write_state(sim, state, ())
    kmsg.begin(sim / KMSG)
    sysfs.write_tree(sim / SYSFS, sysfs.healthy(node_index))


def replace_gpu(state: dict[str, str], gpu: int) -> None:
    """Replace a GPU: a new identity, no wear."""
    old = state[f"gpu.{gpu}.serial"]
    for key in [key for key in state if key.startswith(f"gpu.{gpu}.")]:
        del state[key]
    state |= _identity_lines(gpu, successor(old))


def _identity_lines(gpu: int, own: Identity) -> dict[str, str]:
    return {f"gpu.{gpu}.uuid": own.uuid, f"gpu.{gpu}.serial": own.serial}


def read_state(sim: Path) -> dict[str, str]:
    """The node's state without faults: key -> value (format: nvmlsim.c)."""
    lines = (sim / STATE).read_text().partition(_FAULTS)[0].splitlines()
    found = (line.partition(" = ") for line in lines)
    return {key: value for key, equals, value in found if equals}


def write_state(sim: Path, healthy: Mapping[str, str], faults: tuple[str, ...]) -> None:
    """Replace the state atomically; lines in ``faults`` override those of the healthy node."""
    lines = [*(f"{key} = {value}" for key, value in healthy.items()), _FAULTS, *faults]
    part = sim / f".{STATE}.{os.getpid()}"
    part.write_text("\n".join(lines) + "\n")
    part.rename(sim / STATE)
