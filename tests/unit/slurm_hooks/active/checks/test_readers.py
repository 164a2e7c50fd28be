"""How each active check reads the output of its program, recorded on real machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.active import CATALOGUE, load
from slurm_hooks.active.checks import (
    dcgm_diag,
    gpu_bandwidth,
    gpu_burn,
    nccl_loopback,
    nccl_output,
    nccl_pairwise,
    storage,
)
from slurm_hooks.active.program import Node, Ran
from slurm_hooks.active.result import CheckOutcome, Judged

DATA = Path(__file__).parents[4] / "data" / "active"
NODE = Node(gpus=8, mounts=("/mnt/a", "/mnt/b"))
PASSED, FAILED, COULD_NOT = CheckOutcome.PASSED, CheckOutcome.FAILED, CheckOutcome.ERROR


def recorded(name: str, status: int = 0) -> Ran:
    return Ran(status=status, out=(DATA / name).read_text())


def dcgm(ran: Ran, level: int = 2) -> Judged:
    return dcgm_diag.read(ran, NODE, dcgm_diag.Limits(), level)


def edited(name: str, test: str, **result: object) -> Ran:
    """A recording with another result of one test."""
    report = json.loads((DATA / name).read_text())
    for category in next(iter(report.values()))["test_categories"]:
        for entry in category["tests"]:
            if entry["name"] == test:
                entry["results"][0].update(result)
    return Ran(status=0, out=json.dumps(report))


# --- every check


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_program_without_a_result_is_no_pass(name: str) -> None:
    check, level = load(name), CATALOGUE[name].level
    limits = check.limits()
    for ran in (
        Ran(status=0),
        Ran(status=127, err="not found"),
        Ran(status=0, out="hello\n{}\n[1]\n"),
        Ran(status=0, out='{"gpu": 0}\n{"mount": "/x"}'),
        Ran(status=-11, out='{"DCGM Diagnostic": {"test_categories": [{}]}}'),
    ):
        assert check.read(ran, NODE, limits, level).verdict is COULD_NOT, ran


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_program_that_never_ends_is_a_failure(name: str) -> None:
    check, level = load(name), CATALOGUE[name].level
    judged = check.read(Ran(status=None, limit_s=5), NODE, check.limits(), level)
    assert judged.verdict is FAILED
    assert "5 s" in judged.detail


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_check_states_what_it_needs_and_its_time_limit(name: str) -> None:
    check, level = load(name), CATALOGUE[name].level
    assert check.needs
    assert check.nodes in (1, 2)
    assert check.time_limit_s(check.limits(), level) >= 10


# --- DCGM


def test_dcgm_3_passes_without_the_tests_that_it_always_skips() -> None:
    assert dcgm(recorded("dcgm3-r2-pass.json")).verdict is PASSED
    judged = dcgm(recorded("dcgm3-r3-eud-skipped.json"), 3)
    assert judged.verdict is PASSED
    assert judged.detail == "15 tests passed"


def test_a_failed_test_names_the_gpu_and_the_warning_of_dcgm() -> None:
    ran = edited("dcgm3-r2-pass.json", "GPU Memory", status="Fail", warnings=["Detected 3 DBEs"])
    judged = dcgm(replace(ran, status=205))
    assert judged.verdict is FAILED
    assert "GPU Memory GPU 0" in judged.detail
    assert "Detected 3 DBEs" in judged.detail


@pytest.mark.parametrize("status", ["Skip", "Not Run", "Warn", "no such word"])
def test_a_test_that_was_not_run_is_no_pass(status: str) -> None:
    judged = dcgm(edited("dcgm3-r2-pass.json", "PCIe", status=status))
    assert judged.verdict is COULD_NOT
    assert "PCIe" in judged.detail


def test_an_error_in_the_configuration_of_the_node_is_no_hardware_fault() -> None:
    judged = dcgm(recorded("dcgm4-r1-persistence-off.json", 226), 1)
    assert judged.verdict is COULD_NOT
    assert "Persistence mode" in judged.readings[0].value


def test_warnings_before_the_json_are_skipped_and_a_missing_hostengine_is_reported() -> None:
    text = "Warning: CUDA_VISIBLE_DEVICES is set\n" + (DATA / "dcgm3-r2-pass.json").read_text()
    assert dcgm(Ran(status=0, out=text)).verdict is PASSED
    said = "Error: unable to establish a connection to the specified host: localhost\n"
    judged = dcgm(Ran(status=255, out=said))
    assert judged.verdict is COULD_NOT
    assert "unable to establish a connection" in judged.detail


def test_an_exit_status_that_contradicts_the_tests_is_no_pass() -> None:
    assert dcgm(recorded("dcgm3-r2-pass.json", 226)).verdict is COULD_NOT


def test_time_limits_grow_with_the_level() -> None:
    limits = [dcgm_diag.time_limit_s(dcgm_diag.Limits(), level) for level in (1, 2, 3, 4)]
    assert limits == sorted(limits)
    assert len(set(limits)) == 4


# --- NCCL


def test_one_node_of_eight() -> None:
    run = nccl_output.parse((DATA / "all-reduce-8xh200.txt").read_text())
    assert run is not None
    assert (run.ranks, run.hosts, run.size) == (8, ("test-h200-deb",), 8 << 30)
    assert run.busbw_gb_s == 476.98
    limits = nccl_loopback.Limits()
    assert nccl_loopback.read(recorded("all-reduce-8xh200.txt"), NODE, limits, 0).verdict is PASSED


def test_too_slow_and_wrong_values_fail() -> None:
    ran = recorded("all-reduce-8xh200.txt")
    slow = nccl_loopback.read(ran, NODE, nccl_loopback.Limits(min_busbw_gb_s=480), 0)
    assert slow.verdict is FAILED
    assert "477.0 GB/s (limit >= 480 GB/s)" in slow.detail
    wrong = recorded("all-reduce-wrong-values.txt", 1)
    judged = nccl_loopback.read(wrong, NODE, nccl_loopback.Limits(), 0)
    assert judged.verdict is FAILED
    assert "wrong values 50" in judged.detail


def test_two_nodes_and_a_program_without_mpi() -> None:
    ran = recorded("all-reduce-2x8-a100.txt")
    limits = nccl_pairwise.Limits(min_busbw_gb_s=150)
    assert nccl_pairwise.read(ran, NODE, limits, 0).verdict is PASSED
    assert nccl_pairwise.read(ran, NODE, nccl_pairwise.Limits(), 0).verdict is FAILED
    alone = recorded("all-reduce-8xh200.txt")
    judged = nccl_pairwise.read(alone, NODE, limits, 0)
    assert judged.verdict is COULD_NOT
    assert "8 ranks instead of 16" in judged.detail


def test_the_largest_size_counts_not_the_average() -> None:
    run = nccl_output.parse((DATA / "all-reduce-table-h100.txt").read_text())
    assert run is not None
    assert (run.size, run.busbw_gb_s, run.wrong) == (8 << 30, 467.28, 0)


def test_an_error_of_nccl_is_a_failure_and_a_missing_library_is_not() -> None:
    said = "worker-1: Test NCCL failure common.cu:1009 'unhandled cuda error / '\n"
    judged = nccl_loopback.read(Ran(status=3, out=said), NODE, nccl_loopback.Limits(), 0)
    assert judged.verdict is FAILED
    assert "Test NCCL failure" in judged.detail
    said = "error while loading shared libraries: libnccl.so.2: cannot open shared object file"
    judged = nccl_loopback.read(Ran(status=127, err=said), NODE, nccl_loopback.Limits(), 0)
    assert judged.verdict is COULD_NOT


def test_holdfasts_own_all_reduce_is_read_too() -> None:
    said = {"ranks": 8, "hosts": ["a"], "size": 8 << 30, "busbw_gb_s": 450.0, "wrong": 0}
    ran = Ran(status=0, out="NCCL version 2.2\n" + json.dumps({"all_reduce": said}) + "\n")
    assert nccl_loopback.read(ran, NODE, nccl_loopback.Limits(), 0).verdict is PASSED


# --- GPUs under torch


def burned(**odd: object) -> Ran:
    rows = [
        {"gpu": i, "name": "H100", "tflops": 650.0, "mismatches": 0, "finite": True, "rounds": 9}
        for i in range(8)
    ]
    rows[5].update(odd)
    return Ran(status=0, out="".join(json.dumps(row) + "\n" for row in rows))


def test_a_gpu_that_is_slow_or_wrong_is_named() -> None:
    limits = gpu_burn.Limits()
    assert gpu_burn.read(burned(), NODE, limits, 0).verdict is PASSED
    for odd, said in (
        ({"tflops": 520.0}, "GPU 5 bf16 520"),
        ({"mismatches": 1}, "GPU 5 differing results 1"),
        ({"finite": False}, "GPU 5 differing results 9"),
    ):
        judged = gpu_burn.read(burned(**odd), NODE, limits, 0)
        assert judged.verdict is FAILED
        assert said in judged.detail
    few = Ran(status=0, out=burned().out.splitlines()[0] + "\n")
    assert gpu_burn.read(few, NODE, limits, 0).verdict is FAILED


def test_bandwidth_of_each_gpu() -> None:
    row = {"name": "H100", "hbm_gb_s": 2600.0, "h2d_gb_s": 55.0, "d2h_gb_s": 54.0, "same": True}

    def judged(**odd: object) -> Judged:
        rows = [{"gpu": i, **row, **(odd if i == 2 else {})} for i in range(8)]
        out = "".join(json.dumps(one) + "\n" for one in rows)
        return gpu_bandwidth.read(Ran(status=0, out=out), NODE, gpu_bandwidth.Limits(), 0)

    assert judged().verdict is PASSED
    assert "GPU 2 host to GPU 25.0 GB/s" in judged(h2d_gb_s=25.0).detail
    assert judged(same=False).verdict is FAILED
    assert judged(hbm_gb_s="fast").verdict is COULD_NOT


# --- storage


def stored(**odd: object) -> Ran:
    lines = []
    for mount in NODE.mounts:
        values = {"mount": mount, "size": 1 << 24, "write_mb_s": 900, "read_mb_s": 800}
        values |= {"wrong_blocks": 0, "direct": True}
        lines += [{"mount": mount, "begun": True}, values | (odd if mount == "/mnt/b" else {})]
    return Ran(status=0, out="".join(json.dumps(line) + "\n" for line in lines))


def test_mounts_that_work_are_slow_or_return_wrong_data() -> None:
    limits = storage.Limits()
    assert storage.read(stored(), NODE, limits, 0).verdict is PASSED
    slow = storage.read(stored(read_mb_s=10), NODE, limits, 0)
    assert (slow.verdict, "/mnt/b read 10 MB/s" in slow.detail) == (FAILED, True)
    assert storage.read(stored(wrong_blocks=2), NODE, limits, 0).verdict is FAILED
    bad = storage.read(stored(error="Read-only file system"), NODE, limits, 0)
    assert (bad.verdict, "Read-only file system" in bad.detail) == (FAILED, True)


def test_a_mount_that_does_not_answer_is_named() -> None:
    out = "".join(line + "\n" for line in stored().out.splitlines()[:3])
    judged = storage.read(Ran(status=None, out=out, limit_s=60), NODE, storage.Limits(), 0)
    assert judged.verdict is FAILED
    assert judged.detail == "/mnt/b did not answer within 60 s"


def test_a_mount_that_was_never_reached_is_no_pass() -> None:
    out = "".join(line + "\n" for line in stored().out.splitlines()[:2])
    judged = storage.read(Ran(status=0, out=out), NODE, storage.Limits(), 0)
    assert judged.verdict is COULD_NOT
    assert "/mnt/b" in judged.detail
