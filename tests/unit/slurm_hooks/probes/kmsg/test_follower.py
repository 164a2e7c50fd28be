"""The kernel log follower: file, FIFO and device alike; nothing lost silently, nothing seen
twice.
"""

from __future__ import annotations

import os
import select
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.errors import ProbeError
from slurm_hooks.probes.kmsg.follower import KernelRecord, KmsgFollower, parse_line, xid_of

XID79 = "NVRM: Xid (PCI:0000:5d:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def line(seq: int, text: str, prio: int = 4) -> str:
    return f"{prio},{seq},{seq * 1000},-;{text}\n"


def record(text: str, facility: int = 0) -> KernelRecord:
    return KernelRecord(facility=facility, level=3, seq=1, at_s=1.0, text=text)


def append(path: Path, text: str) -> None:
    with path.open("a") as log:
        log.write(text)


def seqs(follower: KmsgFollower) -> list[int]:
    return [record.seq for record in follower.read()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    path.write_text(line(0, "Linux version") + line(1, "NVRM: loading"))
    return path


def test_a_file_is_read_from_its_start_and_followed(log: Path) -> None:
    follower = KmsgFollower(log)
    assert seqs(follower) == [0, 1]
    append(log, line(2, XID79))
    (found,) = follower.read()
    assert found.text == XID79
    assert found.at_s == pytest.approx(0.002)
    follower.close()


def test_an_appended_record_wakes_the_reader_within_milliseconds(log: Path) -> None:
    follower = KmsgFollower(log)
    follower.read()
    delays = []
    for seq in range(2, 22):
        at = time.monotonic() + 0.01
        threading.Timer(0.01, append, (log, line(seq, "x"))).start()
        assert select.select([follower.fd], [], [], 2)[0]
        delays.append(time.monotonic() - at)
        assert seqs(follower) == [seq]
    follower.close()
    assert sorted(delays)[10] < 1


def test_a_restarted_reader_misses_nothing_and_repeats_nothing(log: Path) -> None:
    follower = KmsgFollower(log)
    follower.read()
    last = follower.last_seq
    follower.close()
    append(log, line(2, XID79))
    again = KmsgFollower(log, after_seq=last)
    assert seqs(again) == [2]
    again.close()
    assert seqs(KmsgFollower(log, after_seq=2)) == []


def test_a_gap_in_the_numbers_is_counted(log: Path) -> None:
    follower = KmsgFollower(log)
    append(log, line(2, "a") + line(7, "b"))
    assert [record.lost for record in follower.read()] == [0, 0, 0, 4]
    follower.close()


def test_a_truncated_file_is_a_new_ring(log: Path) -> None:
    follower = KmsgFollower(log)
    follower.read()
    log.write_text(line(0, "Linux version"))
    assert seqs(follower) == [0]
    assert follower.renewed
    follower.close()


def test_a_replaced_file_is_a_new_ring(log: Path) -> None:
    follower = KmsgFollower(log)
    follower.read()
    fresh = log.with_name("fresh")
    fresh.write_text(line(0, "Linux version") + line(1, XID79))
    fresh.rename(log)
    assert select.select([follower.fd], [], [], 2)[0]
    assert seqs(follower) == [0, 1]
    append(log, line(2, "later"))
    assert seqs(follower) == [2]
    follower.close()


def test_a_ring_that_started_again_between_two_reads(log: Path) -> None:
    follower = KmsgFollower(log, after_seq=900)
    assert follower.renewed
    assert seqs(follower) == [0, 1]
    follower.close()


def test_invalid_lines_are_skipped(log: Path) -> None:
    follower = KmsgFollower(log)
    follower.read()
    garbage = b"\xff\xfe;;\n" + b" KEY=value\n" + b"4,x,1,-;no\n" + b"4\n;\n"
    with log.open("ab") as file:
        file.write(garbage + line(2, XID79).encode())
    assert seqs(follower) == [2]
    follower.close()


def test_half_a_record_waits_for_its_end(log: Path) -> None:
    follower = KmsgFollower(log)
    follower.read()
    whole = line(2, XID79)
    append(log, whole[:20])
    assert seqs(follower) == []
    append(log, whole[20:])
    assert seqs(follower) == [2]
    follower.close()


def test_a_fifo_survives_its_writers(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    follower = KmsgFollower(path)
    for seq in range(3):
        with path.open("w") as writer:
            writer.write(line(seq, "x"))
        assert select.select([follower.fd], [], [], 2)[0]
        assert seqs(follower) == [seq]
    assert not select.select([follower.fd], [], [], 0)[0], "no spinning without a writer"
    follower.close()


def test_the_real_device_where_it_may_be_read() -> None:
    try:
        follower = KmsgFollower(Path("/dev/kmsg"))
    except ProbeError as error:
        pytest.skip(str(error))
    try:
        numbers = seqs(follower)
    except ProbeError as error:
        pytest.skip(str(error))
    finally:
        follower.close()
    assert numbers == sorted(set(numbers))


def test_a_log_that_cannot_be_read_is_a_probe_error(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match=r"kernel log .*: No such file"):
        KmsgFollower(tmp_path / "none")


def test_an_xid_is_read_from_its_line() -> None:
    event = xid_of(record(XID79))
    assert event is not None
    assert (event.xid, event.pci, event.consequence) == (79, "0000:5d:00", False)
    assert event.text.startswith("pid=1234")


@pytest.mark.parametrize(
    ("text", "xid"),
    [
        ("NVRM: Xid (PCI:0000:5D:00.0): 13, Graphics SM Warp Exception", 13),
        ("NVRM: Xid (0000:5d:00): 31, pid=1, Ch 0000001f", 31),
        ("NVRM: Xid (PCI:0000:5d:00): 119", 119),
        ("NVRM: GPU at PCI:0000:5d:00: GPU-1234 has fallen off the bus.", 79),
        ("NVRM: The NVIDIA GPU 0000:5d:00.0\n(PCI ID: 10de:2330) has fallen off the bus", 79),
    ],
)
def test_the_formats_of_all_drivers(text: str, xid: int) -> None:
    event = xid_of(record(text))
    assert event is not None
    assert (event.xid, event.pci) == (xid, "0000:5d:00")


def test_an_escaped_record_of_two_lines_is_one_event() -> None:
    raw = (
        rb"3,7,9,-;NVRM: The NVIDIA GPU 0000:5d:00.0\x0a(PCI ID: 10de:2330) has fallen off the bus"
    )
    parsed = parse_line(raw)
    assert parsed is not None
    event = xid_of(parsed)
    assert event is not None
    assert event.xid == 79


def test_user_space_cannot_forge_an_xid() -> None:
    assert xid_of(record(XID79, facility=1)) is None


def test_the_text_of_xid_154_has_the_required_action() -> None:
    text = (
        "NVRM: Xid (PCI:0000:5d:00): 154, GPU recovery action changed from 0x0 (None) "
        "to 0x2 (Node Reboot Required)"
    )
    event = xid_of(record(text))
    assert event is not None
    assert event.recovery == "Node Reboot Required"


def test_a_named_cause_makes_a_consequence() -> None:
    event = xid_of(record("NVRM: Xid (PCI:0000:5d:00): 45, pid=1, caused by previous Xid 79"))
    assert event is not None
    assert event.consequence


def test_other_lines_are_no_xid() -> None:
    assert xid_of(record("NVRM: loading NVIDIA UNIX Open Kernel Module")) is None
    assert xid_of(record("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal")) is None


def test_many_records_are_read_in_limited_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_hooks.probes.kmsg.follower._MOST_AT_ONCE", 10)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    follower = KmsgFollower(path)
    storm = "".join(line(seq, "x" * 2000) for seq in range(25))
    with path.open("w") as writer:
        writer.write(storm[:60_000])
        writer.flush()
        found: list[int] = []
        pieces = 0
        while pieces < 20 and select.select([follower.fd], [], [], 0)[0]:
            piece = seqs(follower)
            assert len(piece) < 10 + 8192 // 2000 + 1
            found += piece
            pieces += 1
    follower.close()
    assert found == list(range(25))
    assert pieces > 1


def test_very_many_reads_are_slowed_down(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    # Not the module's own functions: threads of other tests may sleep, too.
    clock = SimpleNamespace(sleep=waited.append, monotonic=lambda: 5.0)
    monkeypatch.setattr("slurm_hooks.probes.kmsg.follower.time", clock)
    follower = KmsgFollower(log)
    for _ in range(105):
        follower.read()
    follower.close()
    assert len(waited) == 5
    assert max(waited) <= 0.05


def test_a_mig_instance_after_the_address() -> None:
    event = xid_of(record("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE (0x9)"))
    assert event is not None
    assert (event.xid, event.pci) == (94, "0000:01:00")


def test_the_number_of_a_recovery_action_is_kept() -> None:
    text = "NVRM: Xid (PCI:0000:0d:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)"
    event = xid_of(record(text))
    assert event is not None
    assert (event.recovery_value, event.recovery) == (1, "PF FLR")
