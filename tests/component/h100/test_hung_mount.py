"""A file system that does not answer, in namespaces of its own: needs root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from testbed.faults import hung_mount

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

_SCRIPT = """
set -e
mkdir -p "$1/mnt"; cd /
python=$2; server=$3
"$python" -I "$server" "$1/mnt"
cat "$1/mnt/any" 2>"$1/said" & reader=$!
state() { sed 's/.*) //; s/ .*//' "/proc/$reader/stat"; }
# For longer than its start from a disk takes, on a busy machine too.
looks=0
until [ $looks = 10 ]; do if [ "$(state)" = D ]; then looks=$((looks + 1)); else looks=0; fi; sleep 0.05; done
kill -9 $reader; sleep 0.3
echo "after SIGKILL: $(state)"
"$python" -I "$server" --end "$1/mnt"
code=0; wait $reader || code=$?
echo "after the end: $code"
echo "mounts left: $(grep -c "$1" /proc/self/mountinfo || true)"
echo "servers left: $(pgrep -fc "hung_mount.py $1/mnt" || true)"
ls "$1/mnt"
"""


def test_the_process_survives_sigkill_and_the_mount_is_removed_without_a_trace(
    tmp_path: Path,
) -> None:
    import sys

    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL",
         "bash", "-c", _SCRIPT, "sh", str(tmp_path), sys.executable, hung_mount.__file__],
        capture_output=True,
        text=True,
        timeout=25,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "after SIGKILL: D",
        "after the end: 137",
        "mounts left: 0",
        "servers left: 0",
    ]


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    import sys

    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-I", hung_mount.__file__, str(tmp_path / "none")],
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path}/none: No such file or directory (ENOENT)\n"
