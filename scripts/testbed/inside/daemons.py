"""A table of the daemons in a box's main namespace."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

DATABASE = "/var/lib/accounting"
"""A link to the folder of MariaDB's system tables (see boot)."""

SLURMCTLD_STATE = "/var/lib/slurm/ctld"
"""StateSaveLocation in slurm.conf."""

BRIDGE_RESTART_S = 1.0
"""Shorter than a Deployment's back-off, which starts at 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """``restart_s``: seconds after its exit until it is restarted (None: it stays down)."""

    name: str
    argv: tuple[str, ...]
    log: str
    user: str = "root"
    env: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    """Created before the start and owned by ``user``."""
    restart_s: float | None = None


DAEMONS = {
    daemon.name: daemon
    for daemon in (
        Daemon(
            name="munged",
            argv=("/usr/sbin/munged", "--foreground"),
            log="/var/log/slurm/munged.log",
            user="munge",
            folders=("/run/munge", "/etc/munge", "/var/lib/munge", "/var/log/munge"),
        ),
        Daemon(
            name="mariadbd",
            argv=(
                "/usr/sbin/mariadbd",
                "--no-defaults",
                "--skip-networking",
                "--socket=/run/mysqld/mysqld.sock",
                f"--datadir={DATABASE}",
                "--pid-file=/run/mysqld/mysqld.pid",
                # small and fast: the data ends with the box
                "--innodb-buffer-pool-size=32M",
                "--innodb-log-file-size=8M",
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-fast-shutdown=2",
                "--innodb-lock-wait-timeout=900",
            ),
            log="/var/log/slurm/mariadbd.log",
            user="mysql",
            folders=("/run/mysqld",),
        ),
        Daemon(
            name="slurmdbd",
            argv=("/usr/sbin/slurmdbd", "-D"),
            log="/var/log/slurm/slurmdbd.err",
            folders=("/run/slurmdbd",),
        ),
        Daemon(
            name="slurmctld",
            # -i: it can restart after a kill before its first state save (otherwise fatal on 26.05)
            argv=("/usr/sbin/slurmctld", "-D", "-i"),
            log="/var/log/slurm/slurmctld.err",
            folders=("/run/slurmctld", SLURMCTLD_STATE),
        ),
        Daemon(
            name="slurmrestd",
            argv=(
                "/usr/sbin/slurmrestd",
                "-a",
                "rest_auth/jwt",
                "-s",
                "slurmctld,slurmdbd",
                "unix:/run/slurmrestd/socket",
                "localhost:6820",
            ),
            log="/var/log/slurm/slurmrestd.log",
            user="restd",
            env={"SLURM_JWT": "daemon"},
            folders=("/run/slurmrestd",),
        ),
        Daemon(
            name="bridge",
            argv=("/opt/holdfast/bin/holdfast", "bridge"),
            log="/var/log/holdfast/bridge.log",
            user="holdfast",
            env={"KUBECONFIG": "/etc/holdfast/kubeconfig"},
            restart_s=BRIDGE_RESTART_S,
        ),
    )
}


PLANE = "plane.json"
"""In the box's folder: the control plane's daemons, `[{"name", "argv", "log"}]`, as testbed.kube lists them."""


def catalogue(folder: Path, *, pods: bool = False) -> dict[str, Daemon]:
    """Every daemon of the box whose folder this is. ``pods``: kubelet starts slurmctld."""
    try:
        plane = json.loads((folder / PLANE).read_text())
    except FileNotFoundError:
        plane = []
    more = [Daemon(name=row["name"], argv=tuple(row["argv"]), log=row["log"]) for row in plane]
    own = {name: daemon for name, daemon in DAEMONS.items() if not (pods and name == "slurmctld")}
    return {**own, **{daemon.name: daemon for daemon in more}}
