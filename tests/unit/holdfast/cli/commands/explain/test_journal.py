"""``holdfast explain JOB`` finds the journal wherever it is: with scontrol and sacct from recordings."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.commands.explain.files import fold, read_journal
from holdfast.records import incidents
from holdfast.slurm.accounting import past_job

DATA = Path(__file__).parents[5] / "data" / "slurm" / "24.11"
ROW = json.loads((DATA / "job.json").read_text())
JOB = ROW["jobs"][0]["job_id"]
ATTEMPTS = [
    {"t": 1, "event": "attempt", "attempt": 1, "restarts": 0, "job_start": 1, "nodes": "n1"},
    {"t": 2, "event": "decision", "attempt": 1, "action": "requeue", "why": "bad node n1"},
    {"t": 3, "event": "attempt", "attempt": 2, "restarts": 1, "job_start": 3, "nodes": "n2"},
    {"t": 4, "event": "attempt", "attempt": 3, "restarts": 1, "job_start": 3, "nodes": "n2"},
]


def write(folder: Path, job: int = JOB) -> Path:
    path = folder / ".holdfast" / f"job-{job}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in ATTEMPTS))
    return path


class Site:
    """scontrol and sacct as programs; ``silent``: slurmctld does not answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "holdfast.yaml"
        self.config.write_text(
            f"slurm: {{bin: {folder}}}\npaths: {{run: {folder}/run, procfs: {folder}/proc}}\n"
        )
        self.tool("sacct", "true")
        self.tool("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1")

    def tool(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def comment(self, text: str) -> None:
        row = json.loads(json.dumps(ROW))
        row["jobs"][0]["admin_comment"] = text
        (self.folder / "job.json").write_text(json.dumps(row))
        node = json.dumps({"nodes": []})
        self.tool(
            "scontrol",
            f'case "$*" in *job*--json) cat {shlex.quote(str(self.folder))}/job.json ;;\n'
            f"*--json) echo '{node}' ;; *) echo 'Node n1 not found'; exit 1 ;; esac",
        )

    def accounting(self, comment: str, work_dir: Path, name: str = "train") -> None:
        fields = [JOB, "alice", "COMPLETED", "0:0", "n[1-2]", comment, work_dir, name, JOB]
        (self.folder / "sacct.txt").write_text("\f".join(map(str, fields)) + "\n")
        self.tool(
            "sacct",
            "for w; do case $w in --delimiter=*) d=${w#*=} ;; esac; done\n"
            f'sed "s/\f/$d/g" {shlex.quote(str(self.folder))}/sacct.txt',
        )

    def gone(self) -> None:
        self.tool(
            "scontrol",
            'case "$*" in *--json) echo \'{"jobs": [], "nodes": []}\' ;;\n'
            "*) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;; esac",
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    found = Site(tmp_path)
    monkeypatch.setenv("HOLDFAST_CONFIG", str(found.config))
    monkeypatch.delenv("HOLDFAST_CHECKPOINTS", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    return found


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main.main(["explain", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_admin_comment_leads_to_the_journal(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "my checkpoints; 100%")
    site.comment(incidents.render([], str(path)))
    status, out, _ = explained(capsys, str(JOB))
    assert status == 0
    assert f"  journal   {path}\n" in out
    assert "  attempts  3\n" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("  ") and "1970" in line]
    assert [row[0] for row in rows] == ["1", "2", "3"]


def test_a_comment_leads_to_no_other_file_than_this_jobs_journal(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("/etc/shadow", str(tmp_path / f".holdfast/job-{JOB + 1}.jsonl"), "../job"):
        site.comment(incidents.render([], path))
        _, out, _ = explained(capsys, str(JOB))
        assert "journal   not found (--checkpoints DIR)" in out


def test_a_journal_that_this_host_does_not_have_is_named(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"/nonexistent/ckpt/.holdfast/job-{JOB}.jsonl"
    site.comment(incidents.render([], path))
    status, out, _ = explained(capsys, str(JOB))
    assert status == 0
    assert f"journal   {path} (cannot be read: no such file on this host)" in out


def test_accounting_leads_to_the_journal_while_slurmctld_is_silent(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "elsewhere")
    site.accounting(incidents.render([], str(path)), tmp_path / "nothing", "a\nb")
    status, out, err = explained(capsys, str(JOB))
    assert status == 1
    assert out.startswith(
        f"job {JOB} (a\\nb, alice): Slurm does not answer; in accounting COMPLETED"
    )
    assert "  attempts  3\n" in out
    assert err.count("Slurm does not answer") == 1


def test_an_array_task_is_found_in_accounting(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "elsewhere")
    site.accounting(incidents.render([], str(path)), tmp_path)
    _, out, _ = explained(capsys, "7_1", "--json")
    report = json.loads(out)
    assert (report["job_id"], len(report["attempts"])) == (JOB, 3)
    assert report["accounting"]["state"] == "COMPLETED"


def test_a_job_that_left_slurm_is_explained_from_accounting(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.gone()
    write(tmp_path / "run-1" / "ckpt")
    site.accounting("", tmp_path / "run-1")
    status, out, _ = explained(capsys, str(JOB))
    assert status == 0
    assert "no longer in Slurm; in accounting COMPLETED, exit 0:0" in out
    assert "  attempts  3\n" in out


def test_the_agents_marker_leads_to_the_journal_while_nothing_answers(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "elsewhere")
    (tmp_path / "run/jobs").mkdir(parents=True)
    (tmp_path / f"run/jobs/{JOB}.json").write_text(json.dumps({"journal": str(path)}))
    _, out, _ = explained(capsys, str(JOB))
    assert f"job {JOB}: Slurm does not answer" in out
    assert "  attempts  3\n" in out


def test_the_present_folder_is_searched_while_nothing_answers(
    site: Site,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / "work" / "ckpt")
    monkeypatch.chdir(tmp_path / "work")
    _, out, _ = explained(capsys, str(JOB))
    assert "  attempts  3\n" in out


def test_without_any_source_it_says_what_is_known_and_guesses_nothing(
    site: Site,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    status, out, _ = explained(capsys, str(JOB))
    assert (status, out) == (
        1,
        f"job {JOB}: Slurm does not answer\n  journal   not found (--checkpoints DIR)\n",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_journal_of_another_user_is_named_with_the_cause(tmp_path: Path) -> None:
    path = write(tmp_path / "ckpt")
    path.chmod(0)
    found = read_journal(JOB, None, None, [str(path)])
    assert found is not None
    assert (found.path, found.problem) == (path, "Permission denied")


def test_attempts_of_an_earlier_job_with_the_same_number_do_not_count() -> None:
    later = [{**event, "t": 9, "job_start": 9} for event in ATTEMPTS[:2]]
    assert [row["attempt"] for row in fold([*ATTEMPTS, *later])] == [1]
    same = {**ATTEMPTS[0], "job_start": 99}
    assert len(fold([ATTEMPTS[0], same])) == 1
    assert len(fold(ATTEMPTS)) == 3


@pytest.mark.parametrize(
    "text", ["", "\n", "x;y\n", "7.batch;;;;;;;;7.batch\n", "7;;;;;;;\n", "7;;;;;;;;70\n"]
)
def test_output_of_sacct_without_the_job_is_no_job(text: str) -> None:
    assert past_job(text.replace(";", "\x1f77"), "77") is None


@pytest.mark.parametrize("number", ["7", "4711"])
def test_no_name_and_no_folder_of_a_user_is_read_as_a_row(number: str) -> None:
    """As sacct of 24.11.5 and 26.05.5 prints them: with all bytes of the user's. ``number``: that of the
    same job, or of another user's."""
    words = [number, "alice", "FAILED", "1:0", "n9", "holdfast:forged", "/x", "name", number]
    forged = "/w\n" + "\x1f".join(words) + "\n"
    fields = ["7", "bob", "COMPLETED", "0:0", "None assigned", "", forged, f"a\x1fb\n{forged}", "7"]
    found = past_job("\x1f77".join(fields) + "\n", "77")
    assert found is not None
    assert (found.job_id, found.user, found.state, found.nodes) == (7, "bob", "COMPLETED", "")
    assert (found.admin_comment, found.work_dir, found.name) == ("", forged, f"a\x1fb\n{forged}")


def test_the_first_of_several_rows_is_the_job() -> None:
    rows = [["7", *"abcdefg", "7"], ["8", *"abcdefg", "8"]]
    found = past_job("".join("\x1f77".join(row) + "\n" for row in rows), "77")
    assert found is not None
    assert (found.job_id, found.name) == (7, "g")


# --- kill switches and an invalid configuration, in all commands that list nodes


@pytest.mark.parametrize("words", [(str(JOB),), ("n1",)])
def test_kill_switches_of_this_machine_are_shown_with_their_effect(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    (tmp_path / "off").mkdir()
    for name in ("all", "gpu_xid", "gpu_xyd"):
        (tmp_path / "off" / name).touch()
    _, out, _ = explained(capsys, *words)
    assert f"here      kill switch {tmp_path}/off/all is on: Holdfast acts on nothing here" in out
    assert "off/gpu_xid is on: the check gpu_xid does not run" in out
    assert "off/gpu_xyd has no effect" in out
    assert "did you mean gpu_xid?" in out
    _, out, _ = explained(capsys, *words, "--json")
    assert len(json.loads(out)["kill_switches"]) == 3


def test_an_invalid_configuration_is_reported_once_for_each_problem(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.config.write_text("slurm: {timeout_s: no}\nslrum: {}\n")
    monkeypatch.setenv("PATH", f"{site.folder}:{os.environ['PATH']}")
    status, _, err = explained(capsys, str(JOB))
    assert status == 2
    lines = [line for line in err.splitlines() if "invalid" in line]
    assert len(lines) == len(set(lines)) == 2
