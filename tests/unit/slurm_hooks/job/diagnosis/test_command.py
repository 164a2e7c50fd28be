"""The cause in a log is its earliest line that is not a consequence."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.commands import faults
from holdfast.policy.job.decision import decide
from holdfast.policy.job.facts import JobFacts, NodeEvidence, PastAttempt
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.diagnosis import command
from slurm_hooks.job.diagnosis.causes import (
    CLASS_OF,
    RETRY_OF,
    LogLine,
    diagnose,
    match,
)
from slurm_hooks.job.diagnosis.matching.match import NO_LOG_LINE, progress_rows
from slurm_hooks.job.diagnosis.matching.phrases import NEEDS, PROGRESS, PROGRESS_WORDS
from slurm_hooks.job.signatures import SIGNATURES, Kind, Retry, Signature
from slurm_hooks.settings.job import JobConfig

EXAMPLES = dict(
    line.split("\t", 1)
    for line in (Path(__file__).parents[4] / "data" / "signatures.tsv").read_text().splitlines()
)
OVERLAPS = {"N16": "S01", "C09": "C08", "N18": "C01", "T03": "C05"}
"""Intended: /dev/shm is full, a failed allocation or access of the GPU: the line matches two rows."""

FAILURES = [
    row for row in SIGNATURES if row.code not in NO_LOG_LINE and row.kind is not Kind.PROGRESS
]


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda row: row.code)
def test_every_signature_matches_its_example(signature: Signature) -> None:
    assert re.search(signature.pattern, EXAMPLES[signature.code])


@pytest.mark.parametrize(
    "signature",
    FAILURES,
    ids=lambda row: row.code,
)
def test_every_example_gets_its_own_code(signature: Signature) -> None:
    found = match(EXAMPLES[signature.code])
    assert found is not None
    assert found[0].code in (signature.code, OVERLAPS.get(signature.code))


def test_codes_are_unique_and_every_kind_has_a_class() -> None:
    assert len({row.code for row in SIGNATURES}) == len(SIGNATURES) == len(EXAMPLES)
    assert set(CLASS_OF) == set(Kind)
    assert set(RETRY_OF) == set(Retry)


def _texts(node: Any, constants: Any) -> list[str] | None:
    """All texts that a part of a pattern matches, in lower case; ``None``: too many."""
    operator, value = node
    if operator is constants.LITERAL:
        return [chr(value).lower()]
    if operator is constants.AT and value is constants.AT_END:
        return ["\n"]
    if operator in (constants.AT, constants.ASSERT, constants.ASSERT_NOT):
        return [""]
    if operator is constants.IN:
        literals = [chr(one).lower() for kind, one in value if kind is constants.LITERAL]
        return literals if len(literals) == len(value) <= 4 else None
    if operator is constants.SUBPATTERN:
        return _all_texts(value[3], constants)
    if operator is constants.BRANCH:
        branches = [_all_texts(branch, constants) for branch in value[1]]
        return None if None in branches else [text for texts in branches for text in texts or []]
    if operator in (constants.MAX_REPEAT, constants.MIN_REPEAT) and value[1] == 1:
        texts = _all_texts(value[2], constants)
        return texts if texts is None or value[0] else ["", *texts]
    return None


def _all_texts(sequence: Any, constants: Any) -> list[str] | None:
    found = [""]
    for node in sequence:
        texts = _texts(node, constants)
        if texts is None or len(found) * len(texts) > 100:
            return None
        found = [begin + text for begin in found for text in texts]
    return found


def _needs(sequence: Any, constants: Any, phrases: list[str]) -> bool:
    """True when every matching text contains a phrase; walks the pattern as ``re`` parsed it."""
    for begin in range(len(sequence)):
        found = [""]
        for node in list(sequence)[begin:]:
            repeats = node[0] in (constants.MAX_REPEAT, constants.MIN_REPEAT) and node[1][0] >= 1
            texts = _all_texts(node[1][2], constants) if repeats else _texts(node, constants)
            if texts is None or len(found) * len(texts) > 100:
                break
            found = [text + more for text in found for more in texts]
            if all(any(phrase in text for phrase in phrases) for text in found):
                return True
            if repeats:
                break
    for operator, value in sequence:
        repeats = operator in (constants.MAX_REPEAT, constants.MIN_REPEAT) and value[0] >= 1
        inner = value[3] if operator is constants.SUBPATTERN else value[2] if repeats else []
        branches = value[1] if operator is constants.BRANCH else [inner]
        if all(_needs(branch, constants, phrases) for branch in branches):
            return True
    return False


@pytest.mark.skipif(sys.version_info < (3, 11), reason="re's parser has another name before 3.11")
@pytest.mark.parametrize(
    "signature",
    FAILURES,
    ids=lambda row: row.code,
)
def test_no_signature_can_match_a_line_without_one_of_its_phrases(signature: Signature) -> None:
    from re import _constants, _parser  # type: ignore[attr-defined]

    phrases = NEEDS[signature.code].split("|")
    assert all(phrase == phrase.lower() and len(phrase) >= 6 for phrase in phrases)
    assert _needs(_parser.parse(signature.pattern), _constants, phrases)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="re's parser has another name before 3.11")
@pytest.mark.parametrize("signature", progress_rows(), ids=lambda row: row.code)
def test_no_signature_of_progress_can_match_a_line_without_one_of_its_words(
    signature: Signature,
) -> None:
    from re import _constants, _parser  # type: ignore[attr-defined]

    words = PROGRESS[signature.code]
    assert all(any(part.decode() in word for part in PROGRESS_WORDS) for word in words)
    assert _needs(_parser.parse(signature.pattern), _constants, list(words))


def _lines(text: str) -> list[LogLine]:
    return [
        LogLine(file="log", number=number, text=line)
        for number, line in enumerate(text.splitlines(), start=1)
    ]


def test_a_consequence_is_never_the_cause() -> None:
    found = diagnose(
        _lines(
            "[rank2]: recvValue failed on SocketImpl(fd=72): Failed to recv, got 0 bytes.\n"
            "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
            "srun: error: worker-7: task 56: Aborted (core dumped)\n"
        )
    )
    assert found.cause is not None
    assert found.cause.signature.code == "C04"
    assert found.cause.line.number == 2
    assert found.others == {"R01": 1, "L05": 1}


def test_a_failed_task_is_the_cause_only_if_there_is_no_other() -> None:
    found = diagnose(_lines("srun: error: worker-7: task 56: Killed"))
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.host) == ("L05", "worker-7")
    assert found.suspects == ()


@pytest.mark.parametrize(
    "line",
    [
        "0: slurmstepd-worker-0: error: execve(): /mnt/training/nosuch: No such file or directory",
        "slurmstepd-worker-1: error: execve(): bad interpreter(/nope): No such file or directory",
        "slurmstepd-worker-1: error: execve(): /mnt/training/notexec: Permission denied",
        "slurmstepd-worker-1: error: execve(): /mnt/training/garb: Exec format error",
        "/usr/bin/python3: can't open file '/mnt/training/nosuch.py': [Errno 2] No such file or directory",
        "/usr/bin/python3: can't find '__main__' module in '/mnt/training/d'",
        "/usr/bin/bash: /mnt/training/nosuch.sh: No such file or directory",
        "/usr/bin/sh: 0: cannot open /mnt/training/nosuch.sh: No such file",
    ],
)
def test_a_missing_program_is_a_user_error(line: str) -> None:
    found = diagnose(_lines(f"{line}\nsrun: error: worker-1: task 1: Exited with exit code 2\n"))
    assert found.cause is not None
    assert found.cause.signature.code == "U07"
    assert (CLASS_OF[found.cause.signature.kind], command.retry_of(found)) == ("user", "hold")
    assert found.suspects == ()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "/usr/bin/python3: can't open file '/mnt/training/x.py': [Errno 5] Input/output error",
            "S02",
        ),
        ("slurmstepd-worker-1: error: execve(): /mnt/training/x: Stale file handle", "S02"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/mnt/training/x.bin'", "U12"),
    ],
)
def test_a_failing_filesystem_is_not_a_missing_program(line: str, code: str | None) -> None:
    cause = diagnose(_lines(line)).cause
    assert cause is not None
    assert cause.signature.code == code


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 7, for key: k",
        "[c10d] waitForInput: socket SocketImpl(fd=9, addr=[::1]:38930) timed out after 1800000ms",
    ],
)
def test_a_rendezvous_that_times_out_is_the_networks(line: str) -> None:
    found = match(line)
    assert found is not None
    assert found[0].code == "R02"


def test_rank_and_host_are_found() -> None:
    found = diagnose(_lines("[rank3]: TypeError: forward() got an unexpected keyword argument"))
    assert found.cause is not None
    assert (found.cause.rank, CLASS_OF[found.cause.signature.kind]) == (3, "user")
    lost = diagnose(_lines("srun: error: Node failure on worker-1"))
    assert lost.cause is not None


def test_the_last_attempt_with_a_cause_counts() -> None:
    text = (
        "holdfast: attempt 1 of job 7 starts from the beginning: no checkpoint yet\n"
        "OSError: [Errno 28] No space left on device: '/mnt/x'\n"
        "holdfast: attempt 2 of job 7 starts from /mnt/step_5.pt (step 5)\n"
        "RuntimeError: CUDA error: device-side assert triggered\n"
    )
    found = diagnose(_lines(text))
    assert found.cause is not None
    assert found.cause.signature.code == "C02"
    good = diagnose(
        _lines(text + "holdfast: attempt 3 of job 7 starts from /mnt/step_5.pt\nstep 6\n")
    )
    assert good.cause is not None
    assert good.cause.signature.code == "C02"


BAD_NODE = NodeEvidence(node=SlurmName("worker-1"), code="XID79", fatal=True)
REQUEUE = "slurmstepd: error: *** JOB 7 ON worker-0 CANCELLED AT 2026-11-21T22:17:51 DUE TO JOB REQUEUE ***"


def _decision(node: NodeEvidence = BAD_NODE) -> str:
    facts = JobFacts(
        exit_code=1, current=PastAttempt(fingerprint="x", progressed=False), nodes=(node,)
    )
    decision = decide(facts, JobConfig(), datetime(2026, 1, 1, tzinfo=timezone.utc))
    return f"holdfast: decision: {decision.next.value}: {decision.why}"


@pytest.mark.parametrize(
    "line",
    [
        "holdfast: step ended: bad node: worker-1 (XID79: GPU 3 fell off the bus)",
        "holdfast: not started: bad node in this job: worker-1 (XID79: GPU 3 fell off the bus)",
        _decision(),
    ],
)
def test_a_requeue_by_holdfast_is_explained_by_the_fault_of_the_node(line: str) -> None:
    timeout = EXAMPLES["N01"]
    found = diagnose(_lines(f"{timeout}\n{line}\n{REQUEUE}\n"))
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.host) == ("XID79", "worker-1")
    assert (CLASS_OF[found.cause.signature.kind], command.retry_of(found)) == (
        "hardware",
        "exclude",
    )
    assert found.suspects == ("worker-1",)
    assert found.others == {"N01": 1, "L02": 1}


def test_a_requeue_does_not_hide_the_cause_of_an_earlier_attempt() -> None:
    text = (
        "holdfast: attempt 1 of job 7 starts from the beginning: no checkpoint yet\n"
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        "holdfast: attempt 2 of job 7 starts from the beginning: no checkpoint yet\n"
        f"{REQUEUE}\n"
    )
    found = diagnose(_lines(text))
    assert found.cause is not None
    assert found.cause.signature.code == "C04"


def test_a_requeue_alone_is_still_the_cause() -> None:
    found = diagnose(_lines(REQUEUE))
    assert found.cause is not None
    assert (found.cause.signature.code, command.retry_of(found)) == ("L02", "fail")


def test_a_degraded_node_does_not_hide_an_error_of_the_program() -> None:
    line = _decision(replace(BAD_NODE, code="ROW_REMAP_PENDING", fatal=False))
    found = diagnose(_lines(f"TypeError: x\n{line}\n"))
    assert found.cause is not None
    assert found.cause.signature.code == "U01"


TRACEBACK = """\
Traceback (most recent call last):
  File "/mnt/train.py", line 3, in <module>
    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    ^^^^^^^^^^^^^^^^^^
  File "/mnt/No space left on device.py", line 9, in save
    assert x.is_finite(), "non-finite loss, No space left on device"
ValueError: bad input
"""


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "3: ", "3: [rank3]: "])
def test_source_code_in_a_traceback_is_not_the_cause(prefix: str) -> None:
    lines = TRACEBACK.splitlines()
    text = "\n".join(prefix + line for line in lines)
    found = diagnose(_lines(text))
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.line.number) == ("U01", len(lines))
    assert found.others == {}


def test_tracebacks_of_two_ranks_may_be_mixed() -> None:
    pairs = [[f"{rank}: {line}" for rank in (0, 1)] for line in TRACEBACK.splitlines()]
    found = diagnose(_lines("\n".join(line for pair in pairs for line in pair)))
    assert found.cause is not None
    assert (found.cause.signature.code, found.others) == ("U01", {"U01": 1})


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'torchx'",
        "[rank1]: ImportError: cannot import name 'x' from 'y' (/mnt/y.py)",
        "SyntaxError: invalid syntax",
        "IndentationError: unexpected indent",
        "/usr/bin/python3: No module named train",
    ],
)
def test_a_program_that_cannot_be_imported_is_a_user_error_without_a_retry(line: str) -> None:
    found = diagnose(_lines(f"{line}\nsrun: error: worker-1: task 1: Exited with exit code 1\n"))
    assert found.cause is not None
    assert found.cause.signature.code == "U08"
    assert (CLASS_OF[found.cause.signature.kind], command.retry_of(found)) == ("user", "fail")


def test_a_warning_about_an_optional_module_is_no_cause() -> None:
    line = "A matching Triton is not available. Error caught was: No module named 'triton'"
    assert diagnose(_lines(line)).cause is None


def test_a_missing_shared_library_may_be_the_nodes() -> None:
    cause = diagnose(_lines(EXAMPLES["U02"])).cause
    assert cause is not None
    assert cause.signature.code == "U02"


@pytest.mark.parametrize("code", [*EXAMPLES, "DOWN", "LOST"])
def test_every_code_is_described_by_holdfast_faults(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert faults.main([code]) == 0
    assert capsys.readouterr().out.startswith(f"{code}: ")
    assert faults.main([code, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["code"] == code


def test_ordinary_training_lines_match_nothing() -> None:
    text = (
        "[2026-08-01 10:00:00] iteration 18230/ 500000 | lm loss: 1.93 | grad norm: 0.7 | "
        "number of skipped iterations: 0\n"
        "{'loss': 1.9312, 'grad_norm': 0.71, 'learning_rate': 0.0003, 'epoch': 0.42}\n"
        "NCCL version 2.27.3+cuda12.6\nINFO loading tokenizer\nstep 12 loss 0.23\n"
        "holdfast: step ended: task 1 on n1: Killed\n"
    )
    found = diagnose(_lines(text))
    assert (found.cause, found.others) == (None, {})


def test_fingerprints_ignore_numbers_and_paths() -> None:
    one = diagnose(_lines("OSError: [Errno 28] No space left on device: '/mnt/a/iter_12'")).cause
    two = diagnose(_lines("OSError: [Errno 28] No space left on device: '/mnt/b/iter_900'")).cause
    assert one is not None
    assert two is not None
    assert one.fingerprint == two.fingerprint


def test_the_command_answers_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "slurm-7.out"
    log.write_text("hello\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    assert command.main(["--json", str(log)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["cause"] == {
        "code": "C04",
        "class": "hardware",
        "text": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "file": str(log),
        "line": 2,
        "host": None,
        "rank": None,
    }
    assert (answer["retry"], answer["suspects"], answer["others"]) == ("exclude", [], [])


def test_the_command_merges_logs_by_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_text("2026-08-01 10:00:09 torch.OutOfMemoryError: CUDA out of memory.\n")
    (tmp_path / "b").write_text("2026-08-01 10:00:02 OSError: [Errno 116] Stale file handle\n")
    assert command.main(["--json", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["cause"]["code"] == "S02"
    assert answer["others"] == [{"code": "C11", "lines": 1}]


def test_without_a_cause_the_exit_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_bytes(b"all well\n\xff\n")
    assert command.main([str(tmp_path / "a")]) == 1
    assert "no cause found; retry is safe" in capsys.readouterr().out
    assert command.main([str(tmp_path / "nowhere")]) == 2
    assert "No such file" in capsys.readouterr().err
