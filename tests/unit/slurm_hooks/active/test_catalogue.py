"""Which check tests which fault, which node a failed pair is attributed to, and the host check."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.load import check as check_config
from holdfast.config.load import load_section
from holdfast.errors import ConfigError
from holdfast.faults import FAULTS
from holdfast.vocabulary import FaultClass, Severity
from slurm_hooks.active import CATALOGUE, check_for_fault, load, pairs
from slurm_hooks.active.checks import host
from slurm_hooks.active.config import ActiveConfig
from slurm_hooks.active.pairs import Pair
from slurm_hooks.active.program import Missing, Node, Ran
from slurm_hooks.active.result import (
    CheckOutcome,
    Judged,
    Measurement,
    Result,
    decode,
    encode,
    from_plain,
)

PASSED, FAILED, COULD_NOT = CheckOutcome.PASSED, CheckOutcome.FAILED, CheckOutcome.ERROR

# --- the table of the return test


DRAINING = [f.code for f in FAULTS.values() if f.drains or f.severity is Severity.FATAL]


@pytest.mark.parametrize("code", DRAINING)
def test_every_fault_that_drains_has_a_check_for_one_node(code: str) -> None:
    names = check_for_fault.checks_for(code)
    assert names
    for name in names:
        assert load(name).nodes == 1, "a return test has no second node"


def test_the_table_has_only_checks_and_faults_that_exist() -> None:
    assert set(check_for_fault.BY_CLASS) == set(FaultClass)
    assert set(check_for_fault.BY_CODE) <= set(FAULTS)
    named = {
        name
        for row in (*check_for_fault.BY_CLASS.values(), *check_for_fault.BY_CODE.values())
        for name in row
    }
    assert named <= set(CATALOGUE)
    assert check_for_fault.checks_for("NO_SUCH_CODE"), "an unknown code has one too"


def test_some_rows_by_name() -> None:
    assert check_for_fault.checks_for("XID79") == ("host",)
    assert check_for_fault.checks_for("XID95")[0] == "dcgm_diag_r2"
    assert check_for_fault.checks_for("NVLINK_DOWN") == ("nccl_loopback",)
    assert check_for_fault.checks_for("MOUNT_READ_ONLY") == ("storage",)


# --- pairs


def play(nodes: list[str], bad: Iterable[str]) -> dict[str, CheckOutcome]:
    """Both rounds over nodes of which some are faulty. A pair fails if one of its nodes is faulty."""
    broken = set(bad)

    def run(waves: list[pairs.Wave]) -> dict[Pair, CheckOutcome]:
        seen: dict[Pair, CheckOutcome] = {}
        for wave in waves:
            used = [node for pair in wave for node in pair]
            assert len(used) == len(set(used)), "the pairs of a wave run at the same time"
            seen |= {pair: FAILED if set(pair) & broken else PASSED for pair in wave}
        return seen

    first = run(pairs.first_round(nodes))
    second = run(pairs.second_round(first))
    return {
        node: attribution.verdict for node, attribution in pairs.attribute(first, second).items()
    }


@pytest.mark.parametrize(
    ("count", "bad"), [(count, bad) for count in range(3, 9) for bad in range(count)]
)
def test_a_failure_is_attributed_to_the_one_faulty_node(count: int, bad: int) -> None:
    nodes = [f"n{i}" for i in range(count)]
    verdicts = play(nodes, [nodes[bad]])
    assert {node for node, verdict in verdicts.items() if verdict is FAILED} == {nodes[bad]}
    assert set(verdicts) == set(nodes)


def test_several_faulty_nodes_are_found_while_one_pair_passes() -> None:
    nodes = [f"n{i}" for i in range(8)]
    verdicts = play(nodes, ["n0", "n3", "n4", "n5"])
    assert {n for n, v in verdicts.items() if v is FAILED} == {"n0", "n3", "n4", "n5"}


def test_without_a_healthy_node_no_node_is_cleared() -> None:
    verdicts = play(["a", "b"], ["a"])
    assert verdicts == {"a": FAILED, "b": FAILED}
    assert pairs.second_round({("a", "b"): FAILED}) == []
    # Two faulty nodes in two pairs: the second-round pair that passes clears its nodes.
    assert play(["a", "b", "c", "d"], ["a", "c"]) == {
        "a": FAILED, "b": PASSED, "c": FAILED, "d": PASSED,
    }  # fmt: skip


def test_a_pair_that_could_not_run_is_attributed_to_no_node() -> None:
    found = pairs.attribute({("a", "b"): COULD_NOT, ("c", "d"): PASSED}, {})
    assert {n: s.verdict for n, s in found.items()} == {
        "a": COULD_NOT, "b": COULD_NOT, "c": PASSED, "d": PASSED,
    }  # fmt: skip
    assert pairs.first_round(["a"]) == []


# --- host

NODE = Node(gpus=2)


def row(check: str, verdict: str, **more: object) -> dict[str, object]:
    values = {"check": check, "mode": "drain", "subject": "node", "value": "v", "limit": "l"}
    return {**values, "verdict": verdict, "remedy": "", **more}


def looked(*rows: dict[str, object], gpus: int = 2, **more: Any) -> Ran:
    card = {"address": "0000:18:00.0", "kind": "gpu", "current_link_speed": "2.5 GT/s PCIe"}
    card |= {"current_link_width": "16", "max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"}
    report = {
        "hardware": {"cpus": 192, "cpu_model": "Xeon", "memory_bytes": 2 << 40, "kernel": "6.8",
                     "uptime_s": 7200.0, "boot_id": "b"},
        "pci": [card] * gpus,
        "modules": ["nvidia", "ib_core"],
        "interfaces": [{"name": "eth0", "operstate": "up", "speed": "100000", "carrier_changes": "2"}],
        "checks": list(rows) or [row("gpu_lost", "ok")],
    }  # fmt: skip
    return Ran(status=0, out=json.dumps({**report, **more}))


def judge(ran: Ran, node: Node = NODE, **limits: Any) -> Judged:
    return host.read(ran, node, host.Limits(**limits), 0)


def test_a_healthy_node_passes() -> None:
    judged = judge(looked())
    assert judged.verdict is PASSED
    shown = {(r.section, r.subject): r.value for r in judged.readings}
    assert shown["kernel modules", "nvidia_peermem"] == "not loaded"
    assert shown["network", "eth0"] == "up, 100000 Mb/s, 2 carrier changes"


def test_hardware_modules_and_links_are_judged() -> None:
    assert "NVIDIA GPUs on the PCI bus 1" in judge(looked(gpus=1)).detail
    assert "nvidia_peermem" in judge(looked(), modules=("nvidia_peermem",)).detail
    assert "CPUs online" in judge(looked(), min_cpus=256).detail
    assert "memory" in judge(looked(), min_memory_gib=4096).detail
    narrow = {
        "address": "0000:18:00.0",
        "kind": "gpu",
        "current_link_speed": "32",
        "max_link_width": "16",
    }
    narrow |= {"current_link_width": "8", "max_link_speed": "32"}
    assert "gpu 0000:18:00.0" in judge(looked(pci=[narrow, narrow])).detail
    assert judge(looked(modules=None)).verdict is PASSED, "a kernel without modules"


def test_findings_count_if_they_would_drain() -> None:
    fatal = row("gpu_lost", "fatal", remedy="GPU_LOST: reboot")
    assert judge(looked(fatal)).verdict is FAILED
    drains = row("gpu_row_remap", "warn", remedy="ROW_REMAP_PENDING: reset")
    assert judge(looked(drains)).verdict is FAILED
    warning = row("mounts", "warn", remedy="MOUNT_FULL: free space")
    assert judge(looked(row("gpu_lost", "ok"), warning)).verdict is PASSED
    assert judge(looked(row("gpu_lost", "ok"), row("dcgm", "unseen"))).verdict is PASSED


def test_without_an_answer_of_a_probe_there_is_no_pass() -> None:
    blind = judge(looked(row("gpu_lost", "ok"), row("infiniband", "blind")))
    assert (blind.verdict, "infiniband" in blind.detail) == (COULD_NOT, True)
    assert judge(looked(row("gpu_lost", "ok"), row("clock", "blind"))).verdict is PASSED
    assert judge(looked(checks="no answer in 90 s")).verdict is COULD_NOT


def test_before_a_return_findings_of_a_check_in_mode_observe_do_not_count() -> None:
    observed = looked(row("gpu_lost", "fatal", mode="observe", remedy="GPU_LOST: reboot"))
    assert judge(observed).verdict is FAILED
    before_return = Node(gpus=2, for_return=True)
    assert judge(observed, before_return).verdict is PASSED
    armed = looked(row("gpu_lost", "fatal", remedy="GPU_LOST: reboot"))
    assert judge(armed, before_return).verdict is FAILED


# --- commands, configuration, results


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in ("host", "storage")])
def test_a_program_that_is_not_installed_is_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("slurm_hooks.active.program.PATH", "/nonexistent")
    check, level = load(name), CATALOGUE[name].level
    with pytest.raises(Missing):
        check.command(Node(gpus=8), check.limits(), level)


def test_programs_get_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("all_reduce_perf", "dcgmi"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    node = Node(gpus=4, nccl_tests=str(tmp_path), mounts=("/mnt/a",))

    def argv(name: str) -> list[str]:
        return load(name).command(node, load(name).limits(), CATALOGUE[name].level)

    assert argv("dcgm_diag_r3")[1:] == ["diag", "-r", "3", "-j"]
    assert argv("nccl_loopback")[1:7] == ["-b", "8192M", "-e", "8192M", "-g", "4"]
    assert argv("nccl_pairwise")[1:7] == ["-b", "8192M", "-e", "8192M", "-g", "1"]
    assert argv("storage")[-3:] == ["--size-mib", "256", "/mnt/a"]
    with pytest.raises(Missing):
        load("storage").command(Node(gpus=4), load("storage").limits(), 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{storage: {size_mib: 1}}", "active.storage.size_mib: must be between 4"),
        ("{inspect: [hots]}", "active.inspect: must name active checks, got 'hots'"),
        ("{torch_python: python3}", "active.torch_python: must be an absolute path"),
        (
            "{gpu_burn: {load_s: 900}}",
            "active.gpu_burn.load_s: must be below time_limit_s",
        ),
        ("{dcgm_diag: {r5_s: 1}}", "r5_s"),
        ("{nccl_pairwise: {mpi: 'a b'}}", "active.nccl_pairwise.mpi: must be"),
    ],
)
def test_an_error_in_the_configuration_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "holdfast.yaml"
    path.write_text(f"active: {text}\n")
    lines = check_config(path, {"active": ActiveConfig})
    assert len(lines) == 1
    assert message in lines[0]
    with pytest.raises(ConfigError):
        load_section(path, "active", ActiveConfig)


def test_a_result_is_decoded_among_other_output() -> None:
    reading = Measurement(section="network", subject="a b", value="ünï", limit="-", ok=None)
    judged = Judged(verdict=FAILED, detail='say "no"', readings=(reading,))
    output = f"prolog says hello\n{encode('host', judged)}\nslurmstepd: bye"
    found = decode(output)
    assert found == Result(check="host", verdict=FAILED, detail='say "no"', readings=(reading,))
    assert from_plain(json.loads(json.dumps(found.plain()))) == found
    assert decode("nothing") is None
    assert decode("HOLDFAST-ACTIVE-CHECK {half") is None
