"""``holdfast support-bundle``: complete, without secrets, and safe where users made the files."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.commands.support_bundle import command as support_bundle
from holdfast.cli.commands.support_bundle.redaction import REMOVED, redacted

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3MDB9.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password: hunter2", "hunter2"),
        ("AccountingStoragePass = s3cret!", "s3cret!"),
        ('{"api_key": "abc def", "x": 1}', "abc def"),
        ("WANDB_API_KEY=0123456789", "0123456789"),
        ("Authorization: Bearer abc.def", "abc.def"),
        ("SLURM_JWT=" + JWT, JWT),
        (f"using {JWT} now", JWT),
        ("https://user:pw1234@host/path", "pw1234"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nafter", "MIIabc"),
        ("-----BEGIN PRIVATE KEY-----\ncut short", "cut short"),
        (r'{"line": "{\"api_key\": \"abc def\"}"}', "abc def"),
        ('["train.py", "--hf-token", "abcdefgh", "--lr", "1"]', "abcdefgh"),
        ("python train.py --wandb-api-key abcdefgh --lr 1", "abcdefgh"),
        ("got: Bearer 0123456789abcdef from", "0123456789abcdef"),
        ("token: Bearer abcdefghijkl", "abcdefghijkl"),
        ("POST https://hooks.slack.com/services/T0/B0/XYZ: 500", "XYZ"),
        ("HF_TOKEN='hf_abcdefghijklmnopqrstuvwx'", "abcdefghij"),
    ],
)
def test_what_looks_secret_is_removed(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redacted(text)
    assert REMOVED in redacted(text)


def test_json_stays_json() -> None:
    value = {
        "api_key": "abc def",
        "command": ["--token", "abc", "--hf-token=abc"],
        "why": "secret: x",
    }
    assert json.loads(redacted(json.dumps(value))) == {
        "api_key": REMOVED,
        "command": ["--token", REMOVED, f"--hf-token={REMOVED}"],
        "why": f"secret: {REMOVED}",
    }


@pytest.mark.parametrize(
    "text",
    [
        "GPU 2 0000:75:00 Xid 79: GPU has fallen off the bus boot=65826d02 gpu=2",
        '{"event": "drained", "key": 7, "gpu_uuid": "GPU-ed06461b-3363"}',
        "slurm_token_file",
        "time: 06:12:00 https://host:8080/path",
        "holdfast bridge --token-file /run/token --once",
        '["train.py", "--max-tokens", "--seq"]',
        "the bearer of bad news; see https://docs.slack.com/x",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "-eyJ",
        "a.",
        "token",
        "token=",
        'token="',
        "://a:",
        "-----BEGIN A",
        "hf_",
        "--token ",
        "--a",
        'token\\"',
        "bearer ",
    ],
)
def test_no_text_of_a_user_takes_long(piece: str) -> None:
    text = piece * ((1 << 20) // len(piece))
    assert len(redacted(text)) <= 2 * len(text)


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive.getmembers():
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name.partition("/")[2]] = file.read().decode()
        return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for tool in ("scontrol", "sinfo", "sdiag", "sacct", "sacctmgr", "squeue"):
        path = tmp_path / tool
        path.write_text(f'#!/bin/sh\necho "{tool} $*"\necho "AuthInfo=x token=abcdefgh"\n')
        path.chmod(0o755)
    for folder in ("run/reports", "run/jobs", "state", "logs", "out"):
        (tmp_path / folder).mkdir(parents=True)
    config = tmp_path / "holdfast.yaml"
    config.write_text(
        f"slurm: {{bin: {tmp_path}}}\npaths: {{run: {tmp_path}/run, state: {tmp_path}/state}}\n"
    )
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.delenv("HOLDFAST_CHECKPOINTS", raising=False)
    monkeypatch.setattr(support_bundle, "_LOGS", tmp_path / "logs")
    monkeypatch.chdir(tmp_path / "out")
    return tmp_path


def test_a_nodes_bundle(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "run/verdict").write_text("ok 1 b holdfast/1\n{}\n")
    (site / "state/drain.json").write_text('{"reason": "holdfast:XID79"}')
    (site / "state/drain.spare.0").write_text(" " * 4096)
    (site / "state/bridge.token").write_text(JWT)
    (site / "logs/agent.n1.log").write_text("x" * (5 << 20) + "\nthe end, password=hunter2\n")
    (site / "logs/evil.log").symlink_to("/etc/shadow")
    os.mkfifo(site / "state/pipe")
    assert main.main(["support-bundle", "n1"]) == 0
    (path,) = (site / "out").iterdir()
    assert str(path.name) in capsys.readouterr().out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    parts = unpacked(path)
    assert parts["agent/verdict"].startswith("ok 1")
    assert "holdfast:XID79" in parts["agent/state/drain.json"]
    assert parts["slurm/node.txt"].startswith("scontrol show node n1 --details\n")
    assert "sdiag" in parts["slurm/sdiag.txt"]
    assert len(parts["logs/agent.n1.log"]) <= (4 << 20) + 100
    assert parts["logs/agent.n1.log"].endswith(f"the end, password={REMOVED}\n")
    manifest = json.loads(parts["manifest.json"])
    assert set(manifest["files"]) | {"manifest.json"} == set(parts)
    assert manifest["versions"]["holdfast"]
    everything = "".join(parts.values())
    assert JWT not in everything
    assert "abcdefgh" not in everything
    assert "agent/state/drain.spare.0" not in parts
    assert not {"agent/state/bridge.token", "logs/evil.log", "agent/state/pipe"} & set(parts)


def test_a_jobs_bundle_has_its_journal_and_what_is_missing(site: Path) -> None:
    folder = site / "ckpt/.holdfast"
    folder.mkdir(parents=True)
    event = {"t": 1, "event": "attempt", "attempt": 1, "why": "secret: abc"}
    (folder / "job-7.jsonl").write_text(json.dumps(event) + "\n")
    (site / "run/jobs/7.json").write_text(json.dumps({"journal": str(folder / "job-7.jsonl")}))
    assert main.main(["support-bundle", "7", "--output", str(site / "b.tar.gz")]) == 0
    parts = unpacked(site / "b.tar.gz")
    assert json.loads(parts["explain.json"])["job_id"] == 7
    assert parts["slurm/job.txt"].startswith("scontrol show job 7")
    assert '"attempt": 1' in parts["journal.jsonl"]
    assert "abc" not in parts["journal.jsonl"]
    missing = json.loads(parts["manifest.json"])["missing"]
    assert list(missing) == ["agent/report.json"]


def test_no_part_controls_the_terminal_of_who_reads_it(site: Path) -> None:
    folder = site / "ckpt/.holdfast"
    folder.mkdir(parents=True)
    line = '{"t": 1, "event": "attempt", "attempt": 1, "why": "\x7f\u202e\x9b2J"}'
    (folder / "job-7.jsonl").write_text(line + "\n")
    (site / "run/jobs/7.json").write_text(json.dumps({"journal": str(folder / "job-7.jsonl")}))
    (site / "scontrol").write_text('#!/bin/sh\nprintf "JobName=\\033]0;x\\007\\t1\\n"\n')
    assert main.main(["support-bundle", "7", "--output", str(site / "b.tar.gz")]) == 0
    parts = unpacked(site / "b.tar.gz")
    assert not any(set(part) & set("\x1b\x07\x7f\u202e\x9b") for part in parts.values())
    assert parts["slurm/job.txt"] == "JobName=\\x1b]0;x\\x07\t1\n"
    assert json.loads(parts["journal.jsonl"]) == json.loads(line)


def test_an_existing_file_is_not_overwritten(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "b.tar.gz").write_text("mine")
    assert main.main(["support-bundle", "7", "--output", str(site / "b.tar.gz")]) == 1
    assert "File exists" in capsys.readouterr().err
    assert (site / "b.tar.gz").read_text() == "mine"


@pytest.mark.parametrize("what", ["../x", "-n", "a b", "--all", ""])
def test_a_name_that_is_none_is_refused(site: Path, what: str) -> None:
    assert main.main(["support-bundle", "--", what]) == 2
    assert list((site / "out").iterdir()) == []
