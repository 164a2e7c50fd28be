"""Garbage in sysfs: an invalid value is unknown, neither healthy nor a fault."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed.h100 import sysfs

from holdfast.config.schema import PathsConfig, SlurmConfig
from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.probes.runner import Prober
from slurm_hooks.settings.sections import AgentConfig, NodeConfig
from slurm_hooks.settings.settings import load
from slurm_hooks.tracking.node import TrackedState
from tests.fuzz.garbage import NUMBERS, SYSFS_VALUES, noise

SYSFS = frozenset({"infiniband", "pcie"})
SEEDS = range(3)
AT_ONCE = 10
"""Garbage values in one pass."""
WORDS = (
    "Unknown", "unknown", "(null)", "ACTIVE", "DOWN", "6: WHAT", "-1: DOWN", "x16", "N/A", "\n\n", "32.0 GT/s",
    ": ACTIVE", "4:", "InfiniBand\0", "0xffffffffffffffff", "18446744073709551616", "e" * 70_000, "🙂",
)  # fmt: skip
_TREE = sysfs.healthy(0)
FILES = sorted(path for path, value in _TREE.items() if not isinstance(value, sysfs.Link))
JUDGED = [
    path
    for path in FILES
    if path.endswith(("/state", "/phys_state", "/rate", "/link_layer", "link_downed", "_width"))
    or "/aer_dev_" in path
]
"""These are hit more often than the rest."""

PORT, GPU = f"{sysfs.hca_folder('mlx5_3')}/ports/1", sysfs.gpu_folder(2)
BROKEN = {
    f"{PORT}/state": "1: DOWN",
    f"{PORT}/phys_state": "2: Polling",
    f"{GPU}/current_link_width": "8",
}


class Node:
    """A sysfs tree, the agent's probe of it in its worker, and every check of the catalogue."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "sys"
        sysfs.write_tree(self.root, _TREE)
        paths = PathsConfig(sysfs=self.root, run=folder / "run", state=folder / "state")
        self.prober = Prober(NodeConfig(), AgentConfig(probe_deadline_s=15.0), paths, SlurmConfig())
        self.observer = Observer(8, "boot", TrackedState())
        self.blind: list[str] = []
        self.table = load(folder / "no-such-file.yaml").active()

    def look(self) -> dict[str, str]:
        """The open findings after one pass: code and subject."""
        readings = self.prober.run(SYSFS)
        self.blind = [blind.probe for blind in readings.blind]
        assert not self.blind or not (self.root / "bus/pci/devices").exists()
        self.observer.read_probes(readings, log_problem="", uptime_s=1.0)
        opened = self.observer.judge(self.table, frozenset(readings.looked))
        return {entry.finding.code: entry.finding.subject for entry in opened}

    def write(self, path: str, value: bytes) -> None:
        (self.root / path).write_bytes(value)

    def restore(self, path: str, broken: dict[str, str]) -> None:
        value = broken.get(path, _TREE[path])
        assert not isinstance(value, sysfs.Link)
        self.write(path, value if isinstance(value, bytes) else value.encode())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.prober.close()


def _garbage(chance: random.Random) -> bytes:
    """No number and no word of the kernel's."""
    what = chance.randrange(3)
    if what == 0:
        return chance.choice(
            [text for text in NUMBERS if not text.strip().isascii() or not text.strip().isdigit()]
        ).encode()
    if what == 1:
        return chance.choice(WORDS).encode()
    return b"\xff" + noise(chance, 60)


def _pour(node: Node, chance: random.Random, looks: int, broken: dict[str, str]) -> None:
    before = node.look()
    for _ in range(looks):
        paths = chance.sample(JUDGED, AT_ONCE // 2) + chance.sample(FILES, AT_ONCE // 2)
        said = {path: _garbage(chance) for path in paths}
        for path, value in said.items():
            node.write(path, value)
        assert node.look() == before, said
        for path in paths:
            node.restore(path, broken)


@pytest.mark.parametrize("seed", SEEDS)
def test_garbage_changes_no_verdict(node: Node, seed: int) -> None:
    """On a healthy node; then on one with a port down and a narrow PCIe link, which stay so."""
    chance = random.Random(seed)
    looks = SYSFS_VALUES // AT_ONCE // len(SEEDS)
    assert node.look() == {}
    _pour(node, chance, looks // 2, {})
    for path in BROKEN:
        node.restore(path, BROKEN)
    for _ in range(5):
        node.look()
    assert {"IB_DOWN": "mlx5_3/1"}.items() <= node.look().items()
    assert "PCIE_WIDTH" in node.look()
    _pour(node, chance, looks - looks // 2, BROKEN)


@pytest.mark.parametrize("path", [f"{PORT}/state", f"{PORT}/phys_state", f"{PORT}/link_layer"])
@pytest.mark.parametrize("value", [b"", b"\xff\xfe", b"4:", b"what"])
def test_a_port_without_a_state_is_neither_down_nor_up(node: Node, path: str, value: bytes) -> None:
    for _ in range(5):
        node.look()
    node.write(path, value)
    assert [node.look() for _ in range(5)] == [{}] * 5, "unknown is not a fault"
    for broken in BROKEN:
        node.restore(broken, BROKEN)
    for _ in range(5):
        bad = node.look()
    assert "IB_DOWN" in bad
    node.write(path, value)
    assert [node.look() for _ in range(8)] == [bad] * 8, "and unknown is not healthy"


@pytest.mark.parametrize("gone", ["class/infiniband/mlx5_3", "class/infiniband", "bus/pci/devices"])
def test_a_missing_sysfs_folder_makes_nothing_healthy(node: Node, gone: str) -> None:
    node.look()
    for path in BROKEN:
        node.restore(path, BROKEN)
    for _ in range(5):
        bad = node.look()
    assert {"IB_DOWN", "PCIE_WIDTH"} <= set(bad)
    (node.root / gone).rename(node.root / "gone")
    for _ in range(8):
        assert bad.items() <= node.look().items()
    assert node.blind == (["pcie"] if gone == "bus/pci/devices" else [])
