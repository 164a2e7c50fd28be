"""scripts/env.sh where something is missing, with a fake apt-get (`scripts/test fresh` uses the real one)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ENV_SH = Path(__file__).parents[3] / "scripts/env.sh"
USUAL = ("bash", "cat", "cut", "dirname", "grep", "id", "mkdir", "sed", "sh", "stat", "tail")


class Bare:
    """A machine whose PATH is a single folder."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for name in USUAL:
            self.link(name)

    def link(self, name: str, to: str | None = None) -> None:
        found = shutil.which(to or name)
        assert found
        (self.bin / name).symlink_to(found)

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    def user(self, uid: int) -> None:
        (self.bin / "id").unlink()
        self.program("id", f"echo {uid}")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        text = f'. "$1"; {script}'
        return subprocess.run(
            ["bash", "-euc", text, "sh", str(ENV_SH)],
            env={"PATH": str(self.bin)}, capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path / "a blank")


def test_all_missing_packages_are_listed_for_a_user_who_cannot_install_them(bare: Bare) -> None:
    bare.user(1000)
    done = bare.run(
        "holdfast_apt none-1=one 'none-2|none-3=two' /no/such/header.h=three none-4=two sh=four"
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Missing on this machine: one two three (Debian package names). Install them and run this again."
    ]


def test_root_installs_all_at_once_and_updates_the_package_lists_if_needed(
    bare: Bare,
) -> None:
    bare.user(0)
    bare.program(
        "apt-get",
        'echo "$@" >>"$0.log"; case "$*" in *update*) touch "$0.lists" ;; *) [ -e "$0.lists" ] ;; esac',
    )
    bare.link("touch")
    done = bare.run("holdfast_apt none-1=one none-2=two")
    assert (done.returncode, done.stderr) == (0, "Installing one two …\n")
    calls = [line.split(" ")[3:] for line in (bare.bin / "apt-get.log").read_text().splitlines()]
    install = ["install", "-y", "--no-install-recommends", "one", "two"]
    assert calls == [install, ["update"], install]


def test_the_error_of_apt_is_reported(bare: Bare) -> None:
    bare.user(0)
    bare.program("apt-get", "echo 'E: Unable to locate package one' >&2; exit 100")
    done = bare.run("holdfast_apt none-1=one")
    assert done.returncode == 2
    assert "apt-get cannot install one: E: Unable to locate package one" in done.stderr


def test_nothing_is_installed_if_nothing_is_missing(bare: Bare) -> None:
    bare.user(0)
    bare.program("apt-get", "echo called >&2; exit 1")
    done = bare.run("holdfast_apt sh=one 'none-1|cat=two' /bin=three")
    assert (done.returncode, done.stderr) == (0, "")


def test_every_group_has_complete_entries(bare: Bare) -> None:
    for name in ("git", "shellcheck"):
        bare.program(name, "")
    assert bare.run("holdfast_packages lint").returncode == 0
    done = bare.run("holdfast_packages tests nonsense")
    assert "no group 'nonsense'" in done.stderr
    done = bare.run(
        r'for row in "${_HOLDFAST_SANDBOX[@]}" "${_HOLDFAST_LINT[@]}"; do printf "%s\n" "$row"; done'
    )
    assert all(
        len(row.rpartition("=")[2]) > 1 and row.rpartition("=")[0]
        for row in done.stdout.splitlines()
    )


OLD = 'case "$1" in --version) echo "Python 3.9.2" ;; *) exit 1 ;; esac'


@pytest.mark.parametrize(
    ("python3", "found"), [(None, "this machine has none"), (OLD, "this machine has Python 3.9.2")]
)
def test_a_missing_or_old_python_is_reported_with_the_remedy(
    bare: Bare, python3: str | None, found: str
) -> None:
    bare.user(1000)
    if python3:
        bare.program("python3", python3)
    done = bare.run("_holdfast_interpreter || _holdfast_no_python")
    assert done.returncode == 2
    assert (
        f"Python 3.10 or newer is needed; {found}. Install one (apt-get install python3 python3-venv"
        in done.stderr
    )
    assert "command not found" not in done.stderr


def test_a_missing_python_is_installed_and_an_old_one_is_not_replaced(
    bare: Bare,
) -> None:
    bare.user(0)
    bare.link("ln")
    real = shutil.which("python3", path="/usr/bin:" + os.environ["PATH"])
    bare.program("apt-get", f'echo "$@" >>"$0.log"; ln -sf {real} "${{0%/*}}/python3"')
    done = bare.run("_holdfast_new_interpreter")
    assert done.stdout == f"{bare.bin}/python3\n", done.stderr
    assert done.stderr == "Installing python3 python3-venv …\n"
    (bare.bin / "python3").unlink()
    (bare.bin / "apt-get.log").unlink()
    bare.program("python3", OLD)
    assert bare.run("_holdfast_new_interpreter").returncode == 2
    assert not (bare.bin / "apt-get.log").exists()


def test_installed_files_are_readable_by_others_whatever_the_umask(bare: Bare) -> None:
    assert bare.run("umask").stdout == "0022\n"
    assert bare.run('umask 077; . "$1"; umask').stdout == "0022\n"


def test_the_command_starts_in_a_checkout_whose_path_has_a_blank(
    bare: Bare, tmp_path: Path
) -> None:
    top = tmp_path / "check out"
    (top / ".venv/bin").mkdir(parents=True)
    bare.link("chmod")
    (top / ".venv/bin/python").symlink_to(shutil.which("python3") or "")
    (top / "holdfast/cli").mkdir(parents=True)
    (top / "holdfast/cli/main.py").write_text(
        "import sys\ndef main():\n    print(sys.argv[1:])\n    return 3\n"
    )
    done = bare.run(
        f'HOLDFAST_TOP="{top}"; PYTHON=$HOLDFAST_TOP/.venv/bin/python; _holdfast_command'
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [top / ".venv/bin/holdfast", "a b", "c"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(top)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "['a b', 'c']\n"), done.stderr
