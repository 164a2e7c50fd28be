"""Arguments of the sandbox command: its own, those passed on, and invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed import cli
from testbed.box import Box, Node
from testbed.errors import SandboxError, did_you_mean
from testbed.paths import box_folder, purge
from testbed.running_box import RunningBox
from testbed.shape import Shape
from testbed.status import logs


@pytest.mark.parametrize(
    ("words", "name", "rest"),
    [
        (["get", "nodes"], "default", ["get", "nodes"]),
        (["--name", "b", "get", "nodes"], "b", ["get", "nodes"]),
        (["worker-1", "xid", "79", "--name=b"], "b", ["worker-1", "xid", "79"]),
        (
            ["exec", "p", "--", "x", "--name", "y"],
            "default",
            ["exec", "p", "--", "x", "--name", "y"],
        ),
        (["--name", "b", "exec", "p", "--", "x"], "b", ["exec", "p", "--", "x"]),
    ],
)
def test_the_box_name_is_read_from_any_place_before_the_dashes(
    words: list[str], name: str, rest: list[str]
) -> None:
    assert cli._take_name(words) == (name, rest)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["stauts"], "unknown verb 'stauts'; did you mean 'status'?"),
        (["up", "--nodes", "many"], "invalid int value: 'many'"),
        (["up", "--bogus"], "--bogus"),
        (["up", "--nodes", "0"], "--nodes 0"),
        (["up", "--slurm", "25.05"], "did you mean '26.05'?"),
        (["up", "--name", "a/b"], "'a/b' is not a valid box name"),
        (["fault", "worker-1"], "usage: scripts/sandbox fault NODE KIND"),
        (["status", "--name", "nobody"], "no box 'nobody' is up"),
    ],
)
def test_invalid_arguments_get_one_line_and_exit_status_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("HOLDFAST_BOXES", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert cli.main(argv) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_an_unwritable_disk_is_reported_in_one_line_with_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOLDFAST_BOXES", str(tmp_path / "file/boxes"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert cli.main(["down"]) == 2
    err = capsys.readouterr().err
    assert str(tmp_path / "file/boxes") in err
    assert "HOLDFAST_BOXES" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ([], ""),
        (["--nodes", "2"], ""),
        (["--slurm", "26.05"], ""),
        (["--nodes", "4"], "2 nodes and Slurm 26.05, requested 4 and 26.05"),
        (["--slurm", "24.11"], "2 nodes and Slurm 26.05, requested 2 and 24.11"),
    ],
)
def test_a_second_up_compares_only_the_given_options(
    words: list[str], refused: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("HOLDFAST_BOXES", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    shape = Shape(name="b", nodes=2, slurm="26.05", root="/r", hooks=True)
    running = Box(folder=tmp_path, shape=shape, pid=1, started=1)
    monkeypatch.setattr(RunningBox, "look", lambda _: running)
    monkeypatch.setattr("testbed.startup.lifecycle._compare_product", lambda _: None)
    assert cli.main(["up", "--name", "b", *words]) == (2 if refused else 0)
    assert refused in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "kind", "reported"),
    [
        ('ok 1 b\n{"findings": []}', [], False),
        ('bad 1 b\n{"findings": [{"code": "IB_FLAP"}]}', [], True),
        ("", [], False),
        ("", ["link-flap"], True),
    ],
)
def test_heal_reports_that_flaps_stay_counted_and_how_to_resume_the_node(
    verdict: str, kind: list[str], reported: bool, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "verdict").write_text(verdict)
    shape = Shape(name="b", nodes=2, slurm="26.05", root="/r", hooks=True)
    running = Box(folder=tmp_path, shape=shape, pid=1, started=1)
    monkeypatch.setattr(RunningBox, "look", lambda _: running)
    monkeypatch.setattr(Node, "path", lambda *_: tmp_path / "verdict")
    assert cli.main(["heal", "worker-1", *kind, "--name", "b"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("worker-1: nothing to heal\n")
    back = "exec --name b controller -- scontrol update nodename=worker-1 state=resume"
    assert (back in out) is reported


def test_without_root_it_reports_that_root_is_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert cli.main(["up"]) == 2
    assert "needs root" in capsys.readouterr().err


def test_help_is_not_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "scripts/sandbox up" in capsys.readouterr().out


def test_an_error_suggests_a_name_or_lists_all() -> None:
    assert did_you_mean("worker-11", ["worker-1", "worker-2"]) == "; did you mean 'worker-1'?"
    assert did_you_mean("zzz", ["b", "a"]) == " (there is: a, b)"
    assert did_you_mean("zzz", []) == ""


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "-x", "x" * 60])
def test_a_box_name_cannot_leave_the_folder_of_boxes(name: str) -> None:
    with pytest.raises(SandboxError):
        box_folder(name)


def test_logs_are_grouped_by_node_or_daemon(tmp_path: Path) -> None:
    for name in ("log/slurm/slurmd.worker-0.log", "log/slurm/slurmctld.err", "log/slurm/slurmctld.log",
                 "log/holdfast/agent.worker-0.log", "kube/kube-apiserver.log", "supervisor.log"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = {name: [path.name for path in files] for name, files in logs(tmp_path).items()}
    assert found == {
        "worker-0": ["agent.worker-0.log", "slurmd.worker-0.log"],
        "slurmctld": ["slurmctld.err", "slurmctld.log"],
        "kube-apiserver": ["kube-apiserver.log"],
        "supervisor": ["supervisor.log"],
    }


def test_a_purge_removes_only_the_sandboxs_files(tmp_path: Path) -> None:
    for name in ("cache/roots/24.11/usr", "cache/layers/x", "cache/kube", "cache/mine"):
        (tmp_path / name).mkdir(parents=True)
    purge(tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["mine"]
    (tmp_path / "cache/mine").rmdir()
    purge(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
