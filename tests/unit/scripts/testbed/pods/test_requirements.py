"""A machine that cannot run pods says what it lacks; one that can says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.pods import programs, requirements
from testbed.startup import host, lifecycle

JOINED = "4:memory:/\n3:cpu,cpuacct:/low\n2:cpuset:/\n1:pids:/\n0::/\n"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text(JOINED)
    assert requirements.missing(own) == ""
    own.write_text(JOINED.replace("pids", "rdma").replace("4:memory:/\n", ""))
    text = requirements.missing(own)
    assert text.startswith("no version 1 control groups for memory, pids on this machine")
    own.write_text("0::/user.slice\n")
    assert "cpu, cpuacct, cpuset, memory, pids" in requirements.missing(own)


def test_a_box_with_pods_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requirements, "missing", lambda: "no control groups")
    refusal = "--pods: no control groups; a box without --pods needs none"
    with pytest.raises(SandboxError, match=refusal):
        lifecycle._check(lifecycle.Order(name="b", pods=True))
    lifecycle._check(lifecycle.Order(name="b"))


def test_the_disk_that_a_build_needs_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def space(_: Path, wanted_gib: float) -> list[str]:
        asked.append(wanted_gib)
        return []

    monkeypatch.setattr(host, "is_built", lambda _: True)
    monkeypatch.setattr(host, "_refused", lambda _: [])
    monkeypatch.setattr(host, "_too_little_memory", lambda _: [])
    monkeypatch.setattr(host, "_too_little_space", space)
    host.check(tmp_path, None)
    host.check(tmp_path, None, pods=True)
    (tmp_path / "pods" / programs.build_key()).mkdir(parents=True)
    host.check(tmp_path, None, pods=True)
    plain, first, later = asked
    assert plain + requirements.DISK_GIB == later
    assert later + requirements.BUILD_GIB == first
