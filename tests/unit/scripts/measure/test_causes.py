"""The accuracy of diagnosis on a folder of labelled logs. These logs are synthetic."""

from __future__ import annotations

from pathlib import Path

import pytest
from measure import causes
from measure.job import logs

LOGS = {
    "ecc.log": (
        "hardware\tuncorrectable ECC\tw-3",
        "w-3:11:12 [2] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\n"
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:94, remote error\n",
    ),
    "hang.log": (
        "network\tWatchdog caught\t-",
        "[rank3]:[E801 10:00:00.1 x.cpp:6] [Rank 3] Watchdog caught collective operation timeout\n",
    ),
    "well.log": (
        "none\t-\t-",
        "ValueError: a sample that was left out\nstep: 1 loss: 2\nstep: 2 loss: 2\nstep: 3 loss: 2\n",
    ),
    "wrong.log": ("storage\tNo space left\t-", "TypeError: bad operand type\n"),
}


def test_right_and_wrong_answers_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, (_, text) in LOGS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "labels.tsv").write_text(
        "".join(f"{name}\t{label}\n" for name, (label, _) in LOGS.items())
    )
    assert causes.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "wrong.log: storage expected, user: TypeError: bad operand type",
        "logs of failures: 3; class right 2, line right 2",
        "no answer: 0; hosts named: 1 of 1",
        "logs without a cause: 1; false causes: 0",
    ]


@pytest.mark.parametrize("kind", logs.LOGS)
def test_the_logs_for_the_speed_have_no_cause(kind: str) -> None:
    log = logs.LOGS[kind]
    assert log(300_000, 1) != log(300_000, 2)
    assert causes.diagnosed(log(300_000, 1)).cause is None
