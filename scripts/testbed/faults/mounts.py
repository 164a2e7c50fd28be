"""Faults of a filestore on one node: a mount over the healthy one, in that node's mount namespace only."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from testbed.errors import SandboxError
from testbed.faults.arguments import Args

if TYPE_CHECKING:
    from testbed.running_box import RunningBox

FILESTORES = ("/mnt/training", "/mnt/inference")

_HUNG = ("/usr/bin/python3", "-I", "/opt/sandbox/testbed/faults/hung_mount.py")
_BOX_FOLDER = "/sandbox"
"""Where a node sees the box's folder, which also holds the filestores."""

# Reads reach the filestore; writes go to a file system that is full.
_FULL = """
set -e
room=/run/full-storage$1
mkdir -p "$room"
mount -t tmpfs -o size=256k,mode=755 full-storage "$room"
mkdir "$room/upper" "$room/work"
chmod 1777 "$room/upper"
mount -t overlay -o "lowerdir=$1,upperdir=$room/upper,workdir=$room/work" full-storage "$1"
dd if=/dev/zero of="$room/filler" bs=4k 2>/dev/null || true
"""
_NO_LONGER_FULL = """
umount -l "$1"
umount -l "/run/full-storage$1"
rm -rf /run/full-storage
"""
_READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"'


# /tmp of a node is its own tmpfs. Above its size limit it keeps its files and accepts no more.
_DISK_FULL = """
set -e
used=$(du -sk /tmp | cut -f1)
mount -o remount,size=$((used + 512))k /tmp
dd if=/dev/zero of=/tmp/.full-disk bs=4k 2>/dev/null || true
"""
_DISK_EMPTY = "rm -f /tmp/.full-disk && mount -o remount,size=50% /tmp"

STATE = "/var/lib/holdfast"
# The agent may rename a file while it is copied: then the copy starts again. An earlier try may have been
# interrupted and left its folder.
_COPY = """
copy() {
  for _ in 1 2 3 4 5; do
    if cp -a "$1/." "$2/" 2>/dev/null; then return; fi
    find "$2" -mindepth 1 -delete
  done
  cp -a "$1/." "$2/"
}
"""
# Move the agent's state folder to its own full file system; existing blocks can be overwritten.
_STATE_FULL = f"""
set -e
{_COPY}
room=/run/full-state
umount -l "$room" 2>/dev/null || true
mkdir -p "$room"
mount -t tmpfs -o mode=755 full-state "$room"
copy "$1" "$room"
mount -o remount,size=$(du -sk "$room" | cut -f1)k "$room"
dd if=/dev/zero of="$room/.full-state" bs=4k 2>/dev/null || true
mount --bind "$room" "$1"
umount -l "$room"
rmdir "$room"
"""
# The mount is busy while the agent writes.
_STATE_READ_ONLY = """
mount --bind "$1" "$1" || exit 1
for _ in 1 2 3 4 5 6 7 8 9; do
  mount -o remount,bind,ro "$1" 2>/dev/null && exit 0
  sleep 0.1
done
mount -o remount,bind,ro "$1" && exit 0
umount -l "$1"
exit 1
"""
_STATE_NOT_FULL = f"""
set -e
{_COPY}
kept=/run/full-state
if grep -q " $1 " /proc/mounts; then
  rm -rf "$kept"
  mkdir "$kept"
  copy "$1" "$kept"
  rm -f "$kept/.full-state"
  umount -l "$1"
fi
find "$1" -mindepth 1 -delete
copy "$kept" "$1"
rm -rf "$kept"
"""


def fill_state(box: RunningBox, node: str, _: Args) -> None:
    _sh(box, node, _STATE_FULL, {"path": STATE})


def empty_state(box: RunningBox, node: str, _: Args) -> None:
    _sh(box, node, _STATE_NOT_FULL, {"path": STATE})


def lock_state(box: RunningBox, node: str, _: Args) -> None:
    _sh(box, node, _STATE_READ_ONLY, {"path": STATE})


def unlock_state(box: RunningBox, node: str, _: Args) -> None:
    _sh(box, node, 'umount -l "$1"', {"path": STATE})


def hang_state(box: RunningBox, node: str, _: Args) -> None:
    hang(box, node, {"path": STATE})


def unhang_state(box: RunningBox, node: str, _: Args) -> None:
    unhang(box, node, {"path": STATE})


def hide_munge(box: RunningBox, node: str, _: Args) -> None:
    """munged serves the whole box; only this node loses the socket."""
    _on(box, node, "mount", "-t", "tmpfs", "no-munge", "/run/munge")


def show_munge(box: RunningBox, node: str, _: Args) -> None:
    _on(box, node, "umount", "-l", "/run/munge")


# /run of a node is its own tmpfs. Shrink it almost to its content; a background loop takes every block
# and inode that becomes free.
_RUN_FULL = """
set -e
blocks=$(stat -f -c '%b - %f' /run)
files=$(stat -f -c '%c - %d' /run)
mkdir -p /run/.full-run
mount -o "remount,size=$((($blocks + 8) * 4096)),nr_inodes=$(($files + 8))" /run
cd /run/.full-run
: >on
fill() {
    dd if=/dev/zero bs=4k count=64 2>/dev/null >>blocks || true
    for try in {1..64}; do : 2>/dev/null >"$number" || return 0; number=$((number + 1)); done
}
number=0
fill
{ while [ -e on ]; do fill; sleep 0.05; done; } </dev/null >/dev/null 2>&1 &
"""
# Inodes stay limited: the kernel refuses a limit on a tmpfs that has none, so that /run could not be
# filled a second time.
_RUN_EMPTY = """
rm -f /run/.full-run/on
sleep 0.3
mount -o remount,size=50%,nr_inodes=1m /run
until rm -rf /run/.full-run 2>/dev/null; do sleep 0.1; done
"""


def fill_run(box: RunningBox, node: str, _: Args) -> None:
    _on(box, node, "bash", "-c", _RUN_FULL)


def empty_run(box: RunningBox, node: str, _: Args) -> None:
    _on(box, node, "bash", "-c", _RUN_EMPTY)


def fill_disk(box: RunningBox, node: str, _: Args) -> None:
    _on(box, node, "sh", "-c", _DISK_FULL)


def empty_disk(box: RunningBox, node: str, _: Args) -> None:
    _on(box, node, "sh", "-c", _DISK_EMPTY)


def lock_disk(box: RunningBox, node: str, _: Args) -> None:
    _on(box, node, "mount", "-o", "remount,bind,ro", "/tmp")  # noqa: S108 - on the node


def unlock_disk(box: RunningBox, node: str, _: Args) -> None:
    _on(box, node, "mount", "-o", "remount,bind,rw", "/tmp")  # noqa: S108 - on the node


def hang(box: RunningBox, node: str, args: Args) -> None:
    """The filestore never answers; processes that touch it cannot be killed."""
    try:
        _on(box, node, *_HUNG, str(args["path"]))
    except SandboxError:
        # It may hang all the same, on a machine that is too busy to say so in time. A fault that is
        # not recorded would never be healed.
        with contextlib.suppress(SandboxError):
            unhang(box, node, args)
        raise


def unhang(box: RunningBox, node: str, args: Args) -> None:
    _on(box, node, *_HUNG, "--end", str(args["path"]))


def fill(box: RunningBox, node: str, args: Args) -> None:
    _sh(box, node, _FULL, args)


def unfill(box: RunningBox, node: str, args: Args) -> None:
    _sh(box, node, _NO_LONGER_FULL, args)


def make_read_only(box: RunningBox, node: str, args: Args) -> None:
    _sh(box, node, _READ_ONLY, args)


def make_writable(box: RunningBox, node: str, args: Args) -> None:
    _sh(box, node, 'umount -l "$1"', args)


def unmount(box: RunningBox, node: str, args: Args) -> None:
    _sh(box, node, 'umount -l "$1"', args)


def remount(box: RunningBox, node: str, args: Args) -> None:
    _sh(box, node, f'mount --bind "{_BOX_FOLDER}$1" "$1"', args)


def _sh(box: RunningBox, node: str, script: str, args: Args) -> None:
    _on(box, node, "sh", "-c", script, "sh", str(args["path"]))


def _on(box: RunningBox, node: str, *argv: str) -> None:
    done = box.node(node).run(argv, timeout_s=20, check=False)
    if done.returncode:
        output = " ".join((done.stderr or done.stdout).split())
        raise SandboxError(f"{node}: {output[:300] or f'{argv[0]} ended with {done.returncode}'}")
