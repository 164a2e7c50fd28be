"""First program of a box's pid 1, with the host's Python: builds the file system, enters it, becomes the supervisor.

    unshare --mount --pid --uts --ipc --net --fork … python -m testbed.inside.stage BOXDIR LIFELINE_FD [OWNER_FD]

Everything is mounted in the box's mount namespace, so nothing stays on the host when pid 1 ends.
"""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

from testbed.paths import TREE
from testbed.shape import CHECKOUT, CONTROLLER, DISKS, GPUS_PER_NODE, USERS, Shape

_MNT_DETACH = 2  # linux/fs.h
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
            "tty": (5, 0), "fuse": (10, 229)}  # fmt: skip
_SHARED = {
    "mnt/training": 0o1777,
    "mnt/inference": 0o1777,
    "mnt/history": 0o755,
    "home/alice": 0o755,
}
"""Filestores and home, separate mounts on every node; folder of the box on the host -> mode."""


def main(argv: list[str]) -> int:
    box = Path(argv[0])
    shape = Shape.from_json((box / "shape.json").read_text())
    subprocess.run(["hostname", CONTROLLER], check=True)
    new = _overlay(box, shape)
    _kernel_filesystems(new)
    _devices(new / "dev")
    _shared_folders(box, new, shape)
    _checkout(new)
    _files(box, new, shape)
    _move_into(new)
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": "/opt/sandbox", "LANG": "C.UTF-8"}
    python = "/usr/bin/python3"
    os.execve(python, [python, "-u", "-m", "testbed.inside.supervisor", *argv[1:]], env)  # noqa: S606 - no shell is wanted


def _mount(kind: str, target: Path, options: str = "", source: str = "none") -> None:
    target.mkdir(parents=True, exist_ok=True)
    argv = ["mount", "-t", kind, *(["-o", options] if options else []), source, str(target)]
    subprocess.run(argv, check=True)


def _bind(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.touch()
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)


def _overlay(box: Path, shape: Shape) -> Path:
    """Mount the root of the box: layers over the release's root; writes stay in memory."""
    base = box / "root"
    _mount("tmpfs", base, "mode=755,size=6g", "box")
    for name in ("upper", "work", "new"):
        (base / name).mkdir()
    lower = ":".join(folder.replace(":", "\\:") for folder in (*shape.layers, shape.root))
    _mount(
        "overlay",
        base / "new",
        f"lowerdir={lower},upperdir={base}/upper,workdir={base}/work",
        "box",
    )
    return base / "new"


def _kernel_filesystems(new: Path) -> None:
    _mount("proc", new / "proc")
    _mount("sysfs", new / "sys", "ro")
    _mount("tmpfs", new / "run", "mode=755")
    _mount("tmpfs", new / "tmp", "mode=1777")


def _devices(dev: Path) -> None:
    """Make a separate /dev: nodes must not see the host's kernel log and disks."""
    _mount("tmpfs", dev, "mode=755")
    # slurmd only checks that /dev/nvidia* are device nodes; these are /dev/null, which can be opened.
    gpus = {f"nvidia{index}": (1, 3) for index in range(GPUS_PER_NODE)}
    for name, (major, minor) in {**_DEVICES, **gpus}.items():
        os.mknod(dev / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        (dev / name).chmod(0o666)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        (dev / name).symlink_to(f"/proc/self/fd/{number}")
    (dev / "fd").symlink_to("/proc/self/fd")
    _mount("devpts", dev / "pts", "newinstance,ptmxmode=0666,mode=620")
    (dev / "ptmx").symlink_to("pts/ptmx")
    _mount("tmpfs", dev / "shm", "mode=1777")


def _shared_folders(box: Path, new: Path, shape: Shape) -> None:
    _bind(box, new / "sandbox")
    for path, mode in _SHARED.items():
        (box / path).mkdir(parents=True, exist_ok=True)
        (box / path).chmod(mode)
        _bind(box / path, new / path)
    os.chown(box / "home/alice", USERS["alice"], USERS["alice"])
    for name, program in shape.programs:
        (new / "opt/kube/bin").mkdir(parents=True, exist_ok=True)
        _bind(Path(program), new / "opt/kube/bin" / name)
    for name, path in shape.pods:
        (new / "opt/pods" / name).parent.mkdir(parents=True, exist_ok=True)
        _bind(Path(path), new / "opt/pods" / name)
    for name in ("slurm", "holdfast") if shape.holdfast else ("slurm",):
        (box / "log" / name).mkdir(parents=True, exist_ok=True)
        _bind(box / "log" / name, new / "var/log" / name)
    if shape.holdfast:
        os.chown(box / "log/holdfast", USERS["holdfast"], USERS["holdfast"])
    else:
        _mount("tmpfs", new / DISKS.relative_to("/"), "mode=755")


def _checkout(new: Path) -> None:
    """The working tree, read-only: scripts and programs can be submitted from it, and no job changes it."""
    target = new / CHECKOUT.relative_to("/")
    _bind(TREE, target)
    subprocess.run(["mount", "-o", "remount,bind,ro,nosuid,nodev", str(target)], check=True)


def _files(box: Path, new: Path, shape: Shape) -> None:
    """Copy the configuration rendered on the host (BOXDIR/etc), and add users that a root made elsewhere lacks."""
    for source in sorted((box / "etc").rglob("*")):
        target = new / "etc" / source.relative_to(box / "etc")
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode & 0o777)
    _add_users(new / "etc")
    for node in shape.node_names:
        (new / "var/lib/slurm/d" / node).mkdir(parents=True, exist_ok=True)


def _add_users(etc: Path) -> None:
    present = {line.split(":")[0] for line in (etc / "passwd").read_text().splitlines()}
    for user, uid in USERS.items():
        if user in present:
            continue
        for name, line in (
            ("passwd", f"{user}:x:{uid}:{uid}::/home/{user}:/bin/bash"),
            ("group", f"{user}:x:{uid}:"),
            ("shadow", f"{user}:!:20000::::::"),
        ):
            with (etc / name).open("a") as file:
                file.write(line + "\n")
        home = etc.parent / "home" / user
        home.mkdir(parents=True, exist_ok=True)
        os.chown(home, uid, uid)


def _move_into(new: Path) -> None:
    """Make ``new`` the root of the namespace and unmount the host's file system."""
    old = new / ".old"
    old.mkdir()
    subprocess.run(["pivot_root", str(new), str(old)], check=True)
    os.chdir("/")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(b"/.old", _MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), "umount2 /.old")
    Path("/.old").rmdir()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, subprocess.CalledProcessError) as problem:
        sys.exit(f"cannot build the box's file system: {problem}")
