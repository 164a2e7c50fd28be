"""Missing requirements are reported before minutes of work, and all at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.rootfs import roots
from testbed.startup import host

TREE = Path(__file__).parents[5]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces and mounts")


def test_all_problems_are_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_missing_commands", lambda: ["ip: not found"])
    monkeypatch.setattr(host, "_too_little_memory", lambda _: ["memory: 1.0 GiB"])
    monkeypatch.setattr(host, "_too_little_space", lambda *_: ["disk: full"])
    monkeypatch.setattr(roots, "problems", lambda _: ["mirror: no answer"])
    with pytest.raises(SandboxError) as caught:
        host.check(tmp_path, "24.11")
    assert str(caught.value).splitlines() == [
        "4 problems on this machine:",
        "  ip: not found",
        "  disk: full",
        "  memory: 1.0 GiB",
        "  mirror: no answer",
    ]


def test_one_problem_is_reported_in_one_line() -> None:
    assert host.together(["disk: full"]) == "disk: full"


def test_a_root_that_is_built_already_needs_no_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "roots/24.11").mkdir(parents=True)
    monkeypatch.setattr(host, "is_built", lambda _: True)
    monkeypatch.setattr(host, "_refused", lambda _: [])
    monkeypatch.setattr(roots, "problems", lambda _: pytest.fail("the mirror was queried"))
    host.check(tmp_path, "24.11")
    host.check(tmp_path, None)


@pytest.mark.parametrize(
    ("free_kib", "expected"), [(3 * 2**20, "memory: 3.0 GiB are available"), (8 * 2**20, "")]
)
def test_memory_that_is_available_counts(free_kib: int, expected: str) -> None:
    text = f"MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable: {free_kib} kB\n"
    assert "".join(host._too_little_memory(text))[: len(expected) or None] == expected


def test_a_full_disk_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (problem,) = host._too_little_space(tmp_path / "not/there/yet", 1e9)
    assert f"are free in {tmp_path}" in problem
    assert "HOLDFAST_CACHE" in problem


@as_root
def test_a_capable_machine_is_accepted(tmp_path: Path) -> None:
    assert list(host._refused(tmp_path)) == []


@as_root
@pytest.mark.parametrize(
    ("lost", "expected"),
    [("sys_admin", "namespaces: "), ("mknod", "mknod: "), ("net_admin", "bridge: ")],
)
def test_what_the_kernel_refuses_is_reported(tmp_path: Path, lost: str, expected: str) -> None:
    program = "from testbed.startup import host; from pathlib import Path; import sys; "
    program += "print(*host._refused(Path(sys.argv[1])), sep=chr(10))"
    done = subprocess.run(
        ["setpriv", f"--bounding-set=-{lost}", sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(TREE / "scripts")},
    )  # fmt: skip
    assert any(line.startswith(expected) for line in done.stdout.splitlines()), done.stdout
