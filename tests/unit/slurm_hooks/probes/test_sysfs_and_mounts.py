"""Mounts, InfiniBand and PCIe: against real mounts (where root may mount) and a sysfs tree."""

from __future__ import annotations

import os
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import ProbeError
from slurm_hooks.facts import MountState, PciKind
from slurm_hooks.probes import infiniband, mounts, pcie
from slurm_hooks.worker.worker import Worker, call

root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def mounted(path: Path, options: str) -> Iterator[Path]:
    path.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    if subprocess.run(argv, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed on this machine")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "with space", "size=1m")


@root
def test_a_healthy_mount_and_no_file_left_behind(tmpfs: Path) -> None:
    facts = mounts.read(str(tmpfs))
    assert facts.state is MountState.OK
    assert facts.latency_s is not None
    assert facts.total_bytes == 1 << 20
    assert list(tmpfs.iterdir()) == []


@root
def test_a_file_of_a_user_is_not_written_and_is_no_fault_of_the_mount(tmpfs: Path) -> None:
    """A name that can be guessed may be a folder (no write succeeds), or a link to another's file."""
    guessed = tmpfs / f".holdfast-probe-{os.uname().nodename}-{os.getpid()}"
    guessed.mkdir()
    assert mounts.read(str(tmpfs)).state is MountState.OK
    guessed.rmdir()
    (tmpfs / "checkpoint.pt").write_text("another user's weights")
    guessed.hardlink_to(tmpfs / "checkpoint.pt")
    assert mounts.read(str(tmpfs)).state is MountState.OK
    assert (tmpfs / "checkpoint.pt").read_text() == "another user's weights"


@root
def test_a_full_mount(tmpfs: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (tmpfs / "big").write_bytes(bytes(2 << 20))
    facts = mounts.read(str(tmpfs))
    assert facts.state is MountState.FULL
    assert "ENOSPC" in facts.detail


@root
def test_a_read_only_mount(tmpfs: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(tmpfs)], check=True)
    assert mounts.read(str(tmpfs)).state is MountState.READ_ONLY


def test_a_folder_that_is_no_mount_point(tmp_path: Path) -> None:
    facts = mounts.read(str(tmp_path))
    assert (facts.state, facts.detail) == (MountState.GONE, "not mounted")


@root
def test_a_mount_that_never_answers_takes_its_deadline(tmp_path: Path) -> None:
    """FUSE: the kernel waits for a daemon that reads the request and says nothing (state D)."""
    path = tmp_path / "dead"
    path.mkdir()
    fd = os.open("/dev/fuse", os.O_RDWR) if Path("/dev/fuse").exists() else -1
    if fd < 0:
        pytest.skip("no /dev/fuse")
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0"
    argv = ["mount", "-i", "-t", "fuse", "-o", options, "dead", str(path)]
    if subprocess.run(argv, check=False, capture_output=True, pass_fds=(fd,)).returncode:
        os.close(fd)
        pytest.skip("mounting is not allowed on this machine FUSE")
    daemon = threading.Thread(target=answer_init_only, args=(fd,), daemon=True)
    daemon.start()
    worker = Worker("mount", mounts.open_probe, token=tmp_path / "token")
    try:
        answer = call(worker, str(path), deadline_s=0.5)
        assert answer.hung
        assert answer.wall_s < 30
        assert "state" in answer.evidence
        again = call(worker, str(path), deadline_s=0.5)
        assert again.hung
    finally:
        # -f ends the connection, -l also where the abandoned prober is still on its way out
        subprocess.run(["umount", "-f", "-l", str(path)], check=True)
        os.close(fd)
    worker.close()


def answer_init_only(fd: int) -> None:
    """The FUSE handshake (linux/fuse.h), then silence."""
    request = os.read(fd, 1 << 17)
    unique = struct.unpack_from("<IIQ", request)[2]
    body = struct.pack("<IIIIHHIIHHI28x", 7, 31, 4096, 0, 12, 9, 4096, 1, 0, 0, 0)
    os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    from testbed.h100 import make_node

    make_node(tmp_path / "sim", 0)
    return tmp_path / "sim" / "sys"


def test_infiniband_ports(sysfs: Path) -> None:
    ports = infiniband.read(sysfs)
    assert ports is not None
    assert [port.device for port in ports] == [f"mlx5_{i}" for i in range(8)]
    assert {(p.state, p.phys_state, p.link_layer) for p in ports} == {
        ("ACTIVE", "LinkUp", "InfiniBand")
    }
    assert ports[0].link_downed is not None


def test_pcie_links(sysfs: Path) -> None:
    devices = pcie.read(sysfs)
    assert devices is not None
    links = [device for device in devices if device.kind is PciKind.GPU]
    assert len(links) == 8
    assert len([device for device in devices if device.kind is PciKind.HCA]) == 8
    assert {device.answers for device in devices} == {True}
    assert {(d.correctable, d.nonfatal, d.fatal) for d in devices} == {(0, 0, 0)}
    assert {(link.width, link.max_width, link.max_speed_gts) for link in links} == {(16, 16, 32.0)}
    assert links[0].pci == "0000:53:00"


def test_a_device_off_the_bus_has_no_width(sysfs: Path) -> None:
    link = next((sysfs / "bus/pci/devices").glob("0000:53:00.0"))
    (link / "current_link_width").write_text("63\n")
    found = {device.pci: device for device in pcie.read(sysfs) or ()}
    assert found["0000:53:00"].width is None
    assert found["0000:64:00"].width == 16


def test_ethernet_cards_are_no_infiniband_cards(sysfs: Path) -> None:
    (sysfs / "bus/pci/devices/0000:54:00.0/class").write_text("0x020000\n")
    kinds = [device.kind for device in pcie.read(sysfs) or ()]
    assert (kinds.count(PciKind.HCA), kinds.count(PciKind.NIC)) == (7, 1)


def test_without_sysfs_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert infiniband.read(tmp_path) is None
    assert pcie.read(tmp_path) is None
    assert next(pcie.open_probe(tmp_path)(None)) is None


def test_no_sysfs_is_an_error_and_no_driver_is_no_port(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="is sysfs mounted"):
        next(infiniband.open_probe(tmp_path)(None))
    with pytest.raises(ProbeError, match="is sysfs mounted"):
        next(pcie.open_probe(tmp_path, expected=True)(None))
    (tmp_path / "class").mkdir()
    assert next(infiniband.open_probe(tmp_path)(None)) == ()
