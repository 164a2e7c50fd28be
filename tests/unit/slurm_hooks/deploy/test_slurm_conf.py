"""The lines of slurm.conf, alone and beside what is there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.commands.render import render_text


def settings(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def onto(folder: Path, text: str) -> str:
    path = folder / "slurm.conf"
    path.write_text(text)
    return render_text("slurm-conf", onto=str(path))


def test_alone_every_line_is_there() -> None:
    lines = settings(render_text("slurm-conf", health_check_interval_s="60"))
    assert lines == {
        "Prolog": "/opt/holdfast/hooks/prolog",
        "Epilog": "/opt/holdfast/hooks/epilog",
        "HealthCheckProgram": "/opt/holdfast/hooks/health_check",
        "HealthCheckInterval": "60",
        "HealthCheckNodeState": "ANY",
        "PrologFlags": "Contain",
        "JobRequeue": "1",
        "SchedulerParameters": "nohold_on_prolog_fail",
        "KillOnBadExit": "1",
    }


def test_a_list_is_joined_and_never_replaced(tmp_path: Path) -> None:
    text = onto(tmp_path, "SchedulerParameters=bf_interval=30,defer_batch # ours\n")
    assert settings(text)["SchedulerParameters"] == (
        "bf_interval=30,defer_batch,nohold_on_prolog_fail"
    )
    assert f"# instead of {tmp_path}/slurm.conf:1: " in text


def test_the_last_line_of_a_list_is_the_one_that_counts(tmp_path: Path) -> None:
    text = onto(tmp_path, "PrologFlags=Alloc\nPrologFlags=X11\n")
    assert settings(text)["PrologFlags"] == "X11,Contain"


@pytest.mark.parametrize("word", ["contain", "Alloc,Contain", "X11,CONTAIN"])
def test_a_word_that_is_there_is_not_asked_for_again(tmp_path: Path, word: str) -> None:
    assert "PrologFlags" not in settings(onto(tmp_path, f"prologflags = {word}\n"))


def test_another_prolog_stays_beside_ours(tmp_path: Path) -> None:
    text = onto(tmp_path, "Prolog=/site/prolog\nEpilog=/opt/holdfast/hooks/epilog\n")
    assert settings(text)["Prolog"] == "/opt/holdfast/hooks/prolog"
    assert "in addition to /site/prolog" in text
    assert "Epilog" not in settings(text)


def test_there_is_only_one_health_check(tmp_path: Path) -> None:
    text = onto(tmp_path, "HealthCheckProgram=/usr/sbin/nhc\n")
    assert "HealthCheckProgram" not in settings(text)
    assert "set a script that runs" in text
    assert "exec /usr/sbin/nhc" in text


def test_an_interval_of_the_sites_own_stays(tmp_path: Path) -> None:
    text = onto(tmp_path, "HealthCheckInterval=300\n")
    assert "HealthCheckInterval" not in settings(text)
    assert "every 300 s; that is how long a stopped agent stays down" in text


def test_a_switch_the_other_way_is_said_with_its_line(tmp_path: Path) -> None:
    text = onto(tmp_path, "\nJobRequeue=0\n")
    assert settings(text)["JobRequeue"] == "1"
    assert f"instead of {tmp_path}/slurm.conf:2 (JobRequeue=0)" in text


def test_what_is_whole_needs_nothing(tmp_path: Path) -> None:
    assert "# Nothing: all lines are there." in onto(tmp_path, render_text("slurm-conf"))


def test_included_files_comments_and_broken_lines_are_read_as_slurm_does(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("#JobRequeue=1\nSchedulerParameters=a,\\\nb\n")
    text = onto(tmp_path, "Include more.conf\nKillOnBadExit=1 # yes\n")
    found = settings(text)
    assert found["SchedulerParameters"] == "a,b,nohold_on_prolog_fail"
    assert "KillOnBadExit" not in found
    assert found["JobRequeue"] == "1"
    assert f"# instead of {tmp_path}/more.conf:2: " in text


def test_a_file_that_includes_itself_ends(tmp_path: Path) -> None:
    assert "JobRequeue" in settings(onto(tmp_path, "include slurm.conf\n"))
