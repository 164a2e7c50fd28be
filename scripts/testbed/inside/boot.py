"""Starts a box's services in order and reports progress; `up` runs it inside the box. Exit status 1: a service failed.

python3 -m testbed.inside.boot
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from testbed.inside.control import ControlError, ask
from testbed.inside.daemons import DATABASE, SLURMCTLD_STATE
from testbed.shape import AUTHS, INSIDE, NODE_PATH, OLDER_STATE, Shape

JWT_KEY = Path("/etc/slurm/jwt_hs256.key")
ACCOUNTING = Path("/run/sandbox-accounting")
"""Exists once slurmctld may start: its pod waits for it (programs/start-slurmctld)."""


class NotUp(Exception):
    """A service did not come up in time; the text names it and its log."""


def say(text: str) -> None:
    print(text, flush=True)


def _answer(argv: Sequence[str]) -> str | None:
    """Standard output of a command, None when it failed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def _wait(what: str, log: str, good: Callable[[], bool], timeout_s: float = 180.0) -> None:
    end = time.monotonic() + timeout_s
    while not good():
        if time.monotonic() > end:
            raise NotUp(
                f"{what} did not come up within {timeout_s:g} s; the end of its log {log}:\n{_tail(log)}"
            )
        time.sleep(0.05)


def _tail(log: str) -> str:
    try:
        text = Path(log).read_text(errors="replace")
    except FileNotFoundError:
        return "(there is no such file)"
    return "".join(text.splitlines(keepends=True)[-8:])


def _secrets() -> None:
    for path, length in ((JWT_KEY, 32), *((Path(key), 1024) for key in AUTHS.values())):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(os.urandom(length))


def _database() -> None:
    """MariaDB's folder with its system tables: from Debian's package (the path differs), else created now."""
    places = (Path("/var/lib/mysql"), Path("/var/lib/mariadb"))
    found = next((place for place in places if (place / "mysql").is_dir()), None)
    if found is None:
        found = places[0]
        made = [
            "mariadb-install-db",
            "--no-defaults",
            "--user=mysql",
            f"--datadir={found}",
            "--skip-test-db",
        ]
        subprocess.run(made, check=True, capture_output=True)
    Path(DATABASE).symlink_to(found)


def _accounting() -> None:
    """slurmdbd over MariaDB, with the cluster and its users."""
    _database()
    ask(INSIDE, do="start", name="mariadbd")
    ask(INSIDE, do="start", name="munged")
    # connects as root through the socket, as Debian configures MariaDB
    select = [
        "mariadb",
        "--socket=/run/mysqld/mysqld.sock",
        "-e",
        "create database if not exists slurm_acct_db",
    ]
    _wait("MariaDB", "/var/log/slurm/mariadbd.log", lambda: _answer(select) is not None)
    _wait("munged", "/var/log/slurm/munged.log", lambda: _answer(["munge", "-n"]) is not None, 20)
    say("MariaDB and munge")
    ask(INSIDE, do="start", name="slurmdbd")
    cluster = ["sacctmgr", "-n", "-P", "list", "cluster"]
    _wait("slurmdbd", "/var/log/slurm/slurmdbd.log", lambda: _answer(cluster) is not None)
    for words in (
        ("add", "cluster", "demo"),
        ("add", "account", "research", "Organization=holdfast"),
        ("add", "user", "alice,bob", "Account=research"),
        ("add", "user", "holdfast", "Account=research", "AdminLevel=Administrator"),
    ):
        subprocess.run(["sacctmgr", "-i", *words], check=False, capture_output=True, timeout=30)
    say("slurmdbd")


def _slurm(shape: Shape) -> None:
    if shape.pods:
        # kubelets start slurmctld and slurmd, in any order, as on a cluster
        ACCOUNTING.touch()
        _power_on(shape)
    else:
        ask(INSIDE, do="start", name="slurmctld")
    ping = ["scontrol", "ping"]
    _wait("slurmctld", "/var/log/slurm/slurmctld.log", lambda: "UP" in (_answer(ping) or ""))
    if not shape.pods:
        _power_on(shape)
    say(f"slurmctld, and power to {shape.nodes} nodes")
    ask(INSIDE, do="start", name="slurmrestd")
    idle = ["sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N"]
    what = "machine" if shape.pods else "node"
    log = f"/var/log/slurm/{what}.{shape.node_names[0]}.log"
    _wait(
        "not all nodes are idle: a slurmd",
        log,
        lambda: len((_answer(idle) or "").split()) == shape.nodes,
    )
    shutil.copytree(SLURMCTLD_STATE, OLDER_STATE, dirs_exist_ok=True)
    say(f"{shape.nodes} nodes idle")


def _power_on(shape: Shape) -> None:
    for node in shape.node_names:
        ask(INSIDE, do="power-on", name=node)


def main() -> int:
    os.environ["PATH"] = NODE_PATH
    shape = Shape.from_json((INSIDE / "shape.json").read_text())
    try:
        _secrets()
        _accounting()
        _slurm(shape)
    except (NotUp, ControlError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
