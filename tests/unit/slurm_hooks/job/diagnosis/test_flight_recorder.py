"""The ranks that the others wait for, from synthetic dumps of torch's flight recorder."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from slurm_hooks.job.diagnosis import command, flight_recorder


def dump(**last: int) -> bytes:
    entries = [
        {"process_group": (name, "x"), "collective_seq_id": number, "state": state}
        for name, last_number in last.items()
        for number, state in ((last_number - 1, "completed"), (last_number, "scheduled"))
    ]
    return pickle.dumps({"version": "2.9", "pg_config": {}, "entries": entries}, protocol=2)


def test_a_rank_that_enqueued_nothing_is_awaited() -> None:
    dumps = {rank: flight_recorder.pending(dump(g0=7)) or {} for rank in range(8)}
    dumps[5] = flight_recorder.pending(dump()) or {}
    assert flight_recorder.awaited(dumps) == (5,)


def test_the_rank_that_is_behind_in_most_groups_is_awaited() -> None:
    dumps = {rank: {"g0": 9, f"g{1 + rank // 4}": 5} for rank in range(8)}
    dumps[6] = {"g0": 8, "g2": 4}
    assert flight_recorder.awaited(dumps) == (6,)


@pytest.mark.parametrize("behind", [0, 4, 8])
def test_dumps_that_do_not_tell_name_no_rank(behind: int) -> None:
    assert flight_recorder.awaited({rank: {"g": 9 - (rank < behind)} for rank in range(8)}) == ()


class _Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("echo hostile",)


@pytest.mark.parametrize(
    "data",
    [pickle.dumps(_Hostile()), b"", b"\x80\x02", pickle.dumps([1]), pickle.dumps({"entries": 1})],
)
def test_what_is_no_dump_is_left_out(data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    assert flight_recorder.pending(data) is None
    assert capfd.readouterr().out == ""


def test_the_command_reads_dumps_beside_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = []
    for rank in range(8):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump(g0=7) if rank != 5 else dump())
        names.append(str(tmp_path / f"nccl_trace_rank_{rank}"))
    log = "".join(
        f"w-{r // 2}:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 8 cudaDev 1\n"
        for r in range(8)
    )
    log += (
        "[rank3]:[E801 10:00:00.1 x.cpp:6] [Rank 3] Watchdog caught collective operation timeout\n"
    )
    (tmp_path / "log").write_text(log)
    assert command.main(["--json", *names, str(tmp_path / "log")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["cause"]["code"], answer["suspects"]) == ("N01", ["w-2"])
    assert command.main(["--json", *names]) == 0
    assert json.loads(capsys.readouterr().out)["cause"]["code"] == "N31"
