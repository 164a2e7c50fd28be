"""Recorded kernel lines (tests/data/kmsg): each source's lines become the events that they mean."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks.facts import KernelEvent, XidEvent
from slurm_hooks.probes.kmsg.events import ALL_CODES, TEXT_CHARS, EventReader
from slurm_hooks.probes.kmsg.follower import KernelRecord, xid_of
from slurm_hooks.probes.kmsg.rules import BY_START
from tests.unit.slurm_hooks.kernel_lines import Block, blocks

BLOCKS = list(blocks())


def heard(records: tuple[KernelRecord, ...]) -> list[XidEvent | KernelEvent]:
    reader = EventReader()
    found: list[XidEvent | KernelEvent] = []
    for record in records:
        xid = xid_of(record)
        found += [xid] if xid is not None else reader.read([record])
    return found


def summary(event: XidEvent | KernelEvent) -> tuple[str, str, int, bool]:
    if isinstance(event, XidEvent):
        return event.code, event.pci, 1, False
    return event.code, event.subject, event.count, event.over


@pytest.mark.parametrize("block", BLOCKS, ids=[block.source for block in BLOCKS])
def test_each_recorded_source_gives_its_events(block: Block) -> None:
    assert [summary(event) for event in heard(block.records)] == list(block.wanted)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.source for block in BLOCKS])
def test_the_same_lines_from_user_space_are_ignored(block: Block) -> None:
    forged = tuple(replace(record, facility=1) for record in block.records)
    assert heard(forged) == []


@pytest.mark.parametrize("block", BLOCKS, ids=[block.source for block in BLOCKS])
def test_truncated_and_corrupt_lines_raise_nothing_and_give_no_new_code(block: Block) -> None:
    known = {code for each in BLOCKS for code, _, _, _ in each.wanted}
    for cut in range(1, 160, 23):
        for spoil in (slice(None, cut), slice(cut, None)):
            spoilt = tuple(replace(record, text=record.text[spoil]) for record in block.records)
            codes = {event.code for event in heard(spoilt)}
            # A number cut in two is another number; nothing else may appear.
            assert {c for c in codes if not re.fullmatch(r"S?XID\d+", c)} <= ALL_CODES | known


def test_every_code_of_the_reader_has_a_recorded_line() -> None:
    seen = {code for block in BLOCKS for code, _, _, _ in block.wanted}
    assert ALL_CODES - seen == {"CPU_LOCKUP", "GPU_INIT_FAILED", "KERNEL_OOPS"}


def test_texts_are_one_short_line() -> None:
    for block in BLOCKS:
        for event in heard(block.records):
            assert len(event.text) <= TEXT_CHARS
            assert "\n" not in event.text
            assert "  " not in event.text


def lines(*texts: str, start_s: float = 100.0) -> tuple[KernelRecord, ...]:
    return tuple(
        KernelRecord(facility=0, level=4, seq=seq, at_s=start_s + seq * 1e-5, text=text)
        for seq, text in enumerate(texts)
    )


@pytest.mark.parametrize(
    ("text", "code", "subject"),
    [
        ("watchdog: BUG: soft lockup - CPU#43 stuck for 26s! [python3:4711]", "CPU_LOCKUP", "CPU#43"),
        ("watchdog: Watchdog detected hard LOCKUP on cpu 12", "CPU_LOCKUP", "cpu 12"),
        ("rcu: INFO: rcu_preempt self-detected stall on CPU", "CPU_LOCKUP", "node"),
        ("BUG: unable to handle page fault for address: ffffb0", "KERNEL_OOPS", "node"),
        ("Oops: 0000 [#1] PREEMPT SMP NOPTI", "KERNEL_OOPS", "node"),
        ("NVRM: GPU 0000:5D:00.0: RmInitAdapter failed! (0x62:0xffff:2477)", "GPU_INIT_FAILED", "0000:5d:00.0"),
        ("[Hardware Error]: CPU:2 (19:61:2) MC21_STATUS[Over|CE]: 0xdc2040000400011b", "MCE_CORRECTED", "CPU:2"),
        ("[Hardware Error]: CPU:2 (19:11:1) MC17_STATUS[-|UE|-|AddrV]: 0xbc002800001c0135", "MCE_UNCORRECTED", "CPU:2"),
        ("Memory failure: 0x6f1b2c: recovery action for dirty LRU page: Recovered", "DIMM_UNCORRECTED", "0x6f1b2c"),
        ("XFS (nvme0n1): Filesystem has been shut down due to log error (0x2).", "FS_SHUTDOWN", "nvme0n1"),
        ("BTRFS error (device sda2: state A): Transaction aborted (error -5)", "FS_ERROR", "sda2"),
        ("virtio-fs: tag <training> not found", "FS_ERROR", "training"),
    ],
)  # fmt: skip
def test_formats_of_the_sources(text: str, code: str, subject: str) -> None:
    (event,) = heard(lines(text))
    assert (event.code, event.subject) == (code, subject)


@pytest.mark.parametrize(
    "text",
    [
        "traps: python3[4711] general protection fault ip:55d0 sp:7ffe error:0 in python3.11",
        "python3[4711]: segfault at 0 ip 00007f error 4 in libc.so.6",
        "pcieport 0000:50:01.0: AER: enabled with IRQ 34",
        "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
        "nvme nvme0: 128/0/0 default/read/poll queues",
        "mlx5_core 0000:54:00.0: Port module event: module 0, Cable unplugged",
        "mce: [Hardware Error]: an unknown text",
        "nfs: server 10.0.0.5 is fine",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.105.08",
        "INFO: task x blocked for more than a while",
        "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 2003, too short",
    ],
)
def test_lines_without_a_fault(text: str) -> None:
    assert heard(lines(text)) == []


def test_the_bit_of_a_pcie_error_is_named_but_not_counted_again() -> None:
    events = heard(
        lines(
            "pcieport 0000:50:01.0: AER: Uncorrectable (Fatal) error message received from 0000:50:01.0",
            "pcieport 0000:50:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
            "pcieport 0000:50:01.0:   device [8086:352a] error status/mask=00000020/00000000",
            "pcieport 0000:50:01.0:    [ 5] SDES                   (First)",
        )
    )
    assert [event.count for event in events if isinstance(event, KernelEvent)] == [1, 0]
    assert events[-1].text.endswith("SDES")


def test_a_stack_belongs_only_to_the_task_before_it() -> None:
    frame = " os_acquire_rwlock_read+0x35/0x50 [nvidia]"
    alone = heard(lines(frame))
    assert alone == []
    late = [
        *lines("INFO: task a:1 blocked for more than 120 seconds."),
        *lines(frame, start_s=200.0),
    ]
    assert [event.code for event in heard(tuple(late))] == ["HUNG_TASK"]
    after = heard(lines("INFO: task a:1 blocked for more than 120 seconds.", " </TASK>", frame))
    assert [event.code for event in after] == ["HUNG_TASK"]


def test_a_hung_task_names_what_it_waits_for() -> None:
    events = heard(
        lines(
            "INFO: task python3:77 blocked for more than 120 seconds.",
            " <TASK>",
            " __schedule+0x2d1/0x870",
            " request_wait_answer+0x14b/0x210",
            " fuse_simple_request+0x17f/0x2e0",
        )
    )
    assert [event.code for event in events] == ["HUNG_TASK", "HUNG_TASK"]
    assert events[-1].text.endswith("Waits in fuse.")


@pytest.mark.parametrize("job", ["job_4711", "s2Z1M83PR0SW00"])
def test_a_killed_task_names_its_job(job: str) -> None:
    """By its SLUID where cgroups have that name; Slurm's commands take both."""
    (event,) = heard(
        lines(
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,"
            f"oom_memcg=/system.slice/slurmstepd.scope/{job}/step_0,"
            f"task_memcg=/system.slice/slurmstepd.scope/{job}/step_0/user/task_3,task=python3,pid=99,uid=2001",
            "Memory cgroup out of memory: Killed process 99 (python3) total-vm:1kB, anon-rss:1kB",
        )
    )
    assert (event.code, event.subject) == ("OOM_JOB", f"job {job.removeprefix('job_')}")


SLURM_JOB = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0"


@pytest.mark.parametrize(
    ("group", "task", "killed"),
    [
        ("/user.slice/user-2002.slice/user@2002.service" + SLURM_JOB, "python3", 99),
        ("/x,task_memcg=" + SLURM_JOB, "python3", 99),
        (SLURM_JOB, "python3", 98),
    ],
    ids=["in a cgroup that the user named", "in a path with the word in it", "another task"],
)
def test_a_killed_task_is_attributed_to_no_other_job(group: str, task: str, killed: int) -> None:
    (event,) = heard(
        lines(
            f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/x,"
            f"task_memcg={group},task={task},pid=99,uid=2002",
            f"Memory cgroup out of memory: Killed process {killed} ({task}) total-vm:1kB, anon-rss:1kB",
        )
    )
    assert (event.code, event.subject) == ("OOM_JOB", "python3")


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("EXT4-fs (sda1): Remounting filesystem read-only", 5),
        ("mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400", 5),
        ("pcieport 0000:50:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer", 5),
        ("nfs: server 10.0.0.5 not responding, still trying", 6),
    ],
)  # fmt: skip
def test_a_line_at_a_level_that_no_kernel_uses_is_ignored(text: str, level: int) -> None:
    (record,) = lines(text)
    assert heard((replace(record, level=level),)) == []
    assert len(heard((replace(record, level=level - 1),))) == 1


def test_an_absurd_number_of_errors_is_bounded() -> None:
    (event,) = heard(lines("EDAC MC1: 99999999999999 CE memory read error on DIMM_A1 (x)"))
    assert isinstance(event, KernelEvent)
    assert event.count == 1_000_000


WORDS = st.sampled_from(
    [
        *BY_START, "SXid (PCI:0000:04:00.0): ", "22013, ", "Fatal, ", "nvidia-nvswitch0: ", "0000:04:00.0", ": ",
        "severity=Uncorrectable (Fatal)", "{1}[Hardware Error]: ", "event severity: fatal", "section_type: memory",
        "device_id: 0000:04:00.0", "INFO: task a:1 blocked for more than 120 seconds.", " x+0x1 [nvidia]", "[ 5] SDES",
        "Out of memory: Killed process 1 (x)", "oom-kill:constraint=X,task_memcg=/job_1/,", "CPU 1: Machine Check:",
        "9" * 30, "\x00", "\n", " ", "\ufffd", "(", ")", "[", "]", "Probing device 0000:04:00.0,",
    ]
)  # fmt: skip


@given(st.lists(st.lists(WORDS | st.text(max_size=12), max_size=8).map("".join), max_size=12))
def test_no_mix_of_known_words_raises_or_gives_a_new_code(texts: list[str]) -> None:
    for event in heard(lines(*texts)):
        assert event.code in ALL_CODES | {"SXID"} or re.fullmatch(r"S?XID\d+", event.code)
        assert len(event.text) <= TEXT_CHARS
        assert "\n" not in event.text
        assert isinstance(event, XidEvent) or len(event.subject) <= 100
