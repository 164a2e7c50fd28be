"""The kernel log and the sysfs tree have the kernel's own shape."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.faults import KINDS
from testbed.faults.arguments import parse
from testbed.faults.kinds.kernel_log import kernel_line
from testbed.h100 import kmsg, sysfs
from testbed.h100.board import HCAS

_RECORD = re.compile(r"(\d+),(\d+),(\d+),-;(.*)")


def records(path: Path) -> list[tuple[int, int, int, str]]:
    found = [_RECORD.fullmatch(line) for line in path.read_text().splitlines()]
    return [(int(m[1]), int(m[2]), int(m[3]), m[4]) for m in found if m is not None]


def test_a_new_ring_begins_at_zero_with_the_drivers_greeting(sim: Path) -> None:
    log = records(sim / "kmsg")
    assert [seq for _, seq, _, _ in log] == list(range(len(log)))
    assert len(log) == len((sim / "kmsg").read_text().splitlines())
    assert any("NVRM: loading" in text for *_, text in log)
    assert not any("Xid" in text for *_, text in log)
    assert any(prio >> 3 for prio, *_ in log)  # and something that is not from the kernel


def test_records_follow_on_with_the_time_since_boot(sim: Path) -> None:
    before = records(sim / "kmsg")[-1]
    kmsg.append(sim / "kmsg", ["NVRM: one", "NVRM: two"])
    one, two = records(sim / "kmsg")[-2:]
    assert (one[0], one[1], one[3]) == (kmsg.KERNEL_WARNING, before[1] + 1, "NVRM: one")
    assert two[1] == one[1] + 1
    assert abs(two[2] / 1e6 - time.monotonic()) < 5


def test_what_does_not_print_is_escaped_as_the_kernel_does(sim: Path) -> None:
    kmsg.append(sim / "kmsg", ["a\nb\\c é"])
    assert records(sim / "kmsg")[-1][3] == r"a\x0ab\x5cc \xc3\xa9"


def test_any_line_of_the_kernels_has_its_level_and_no_end_of_line(sim: Path) -> None:
    wanted = parse(
        "kernel-line", KINDS["kernel-line"].arguments, ["x[1]: a\nb\udcff\n", "--level", "6"]
    )
    effects = kernel_line(wanted, {})
    kmsg.append(sim / "kmsg", effects.log, effects.log_prio)
    prio, _, _, text = records(sim / "kmsg")[-1]
    assert (prio, text) == (6, r"x[1]: a\x0ab\xff")


def test_two_writers_mix_nothing(sim: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: kmsg.append(sim / "kmsg", [f"{n} a", f"{n} b"]), range(100)))
    log = records(sim / "kmsg")
    assert [seq for _, seq, _, _ in log] == list(range(len(log)))
    texts = [text for *_, text in log][-200:]
    assert all(
        first[:-2] == second[:-2] for first, second in zip(texts[::2], texts[1::2], strict=True)
    )


def test_every_link_of_the_tree_leads_to_a_folder_inside_it(sim: Path) -> None:
    root = sim / "sys"
    links = [path for path in root.rglob("*") if path.is_symlink()]
    assert len(links) == 8 * 4 + 5  # GPU, HCA and port of each; four NVSwitches and their port
    assert all(path.is_dir() and path.resolve().is_relative_to(root.resolve()) for path in links)


def test_eight_active_ports_and_eight_full_links(sim: Path) -> None:
    root = sim / "sys"
    ports = [root / "class/infiniband" / hca / "ports/1" for hca in HCAS]
    assert {(port / "state").read_text() for port in ports} == {"4: ACTIVE\n"}
    assert {(port / "counters/link_downed").read_text() for port in ports} == {"0\n"}
    assert len({(root / "class/infiniband" / hca / "node_guid").read_text() for hca in HCAS}) == 8
    gpus = [
        path
        for path in (root / "bus/pci/devices").iterdir()
        if (path / "class").read_text() == "0x030200\n"
    ]
    assert len(gpus) == 8
    assert {(gpu / "current_link_width").read_text() for gpu in gpus} == {"16\n"}
    assert all((gpu / "config").read_bytes()[:4] == b"\xde\x10\x30\x23" for gpu in gpus)


def test_counters_and_changes(sim: Path) -> None:
    root, port = sim / "sys", f"{sysfs.hca_folder('mlx5_3')}/ports/1"
    sysfs.count_up(root, f"{port}/counters/link_downed", 3)
    sysfs.change(root, f"{port}/state", "1: DOWN")
    seen = root / "class/infiniband/mlx5_3/ports/1"
    assert (seen / "counters/link_downed").read_text() == "3\n"
    assert (seen / "state").read_text() == "1: DOWN\n"
    assert not [path for path in seen.iterdir() if path.name.startswith(".")]


def test_aer_counters_end_in_their_sum() -> None:
    lines = dict(line.rsplit(" ", 1) for line in sysfs.fatal(SDES=2, DLP=1).splitlines())
    assert lines["SDES"] == "2"
    assert list(lines.items())[-1] == ("TOTAL_ERR_FATAL", "3")
