"""Processes of jobs are found by cgroups of version 2, as a real slurmd makes them. This needs no controller.

Where the kernel has hierarchies of version 1 beside version 2, slurmd is given the line of version 2 alone
(``cgroup/unified.c``): its own cgroups are real. Limits, and so OOM kills, need controllers and are not tried there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed.paths import TREE, cache
from testbed.rootfs import roots

HERE = Path(__file__).parent / "cgroup"
NAMES = {"24.11": r"job_1", "26.05": r"s[0-9A-Z]{13}"}
"""What Slurm calls the job's cgroup."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="makes cgroups and namespaces"),
    pytest.mark.timeout(180),
]


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup of the host's tree of version 2."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    tops = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
    if not tops:
        pytest.skip("no cgroup2 is mounted here")
    made = Path(tops[0]) / f"holdfast-test-{os.getpid()}"
    made.mkdir()
    yield made
    with contextlib.suppress(OSError):
        for folder, _, _ in os.walk(made, topdown=False):
            Path(folder).rmdir()


def shim(folder: Path) -> dict[str, str]:
    """The variable that names it, where it is needed."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    if [line.partition(":")[0] for line in lines] == ["0"]:
        return {}
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, and the kernel has cgroups of version 1 too")
    made = folder / "unified.so"
    flags = ("-shared", "-fPIC", "-O1", "-o", str(made))
    subprocess.run(["cc", *flags, str(HERE / "unified.c"), "-ldl"], check=True)
    return {"SHIM": str(made)}


def test_the_processes_of_a_job_are_found_by_their_cgroup(
    release: str, group: Path, tmp_path: Path
) -> None:
    root = roots.ensure(release, cache(), print)
    (tmp_path / "machine").mkdir()
    spaces = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"]
    inside = ["bash", str(HERE / "machine.sh"), str(group), str(tmp_path / "machine"), str(root)]
    done = subprocess.run(
        [
            *spaces,
            "--mount-proc",
            "--propagation=private",
            "--",
            *inside,
            str(TREE),
            str(HERE / "look.py"),
        ],
        env={**os.environ, **shim(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {(1, "batch"), (1, "0")} <= {tuple(step) for step in found["steps"]}
    (task,) = [one for one in found["processes"] if one["command"].startswith("/usr/bin/sleep")]
    assert (task["job"], task["step"]) == (1, "0")
    (path,) = task["paths"]
    assert re.search(rf"/{NAMES[release]}/step_0$", path)
    assert all(one["by_cgroup"] and one["job"] == 1 for one in found["processes"])
