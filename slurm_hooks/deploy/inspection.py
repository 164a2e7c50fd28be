"""``holdfast inspect`` on a schedule, by cron, scrontab, systemd or Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from holdfast.config.path import DEFAULT_PATH
from holdfast.errors import UsageError
from holdfast.render.document import BOOL, IMAGE, JOB_PATH, NAME, PATH, REQUIRED, Document, Value
from slurm_hooks.active import CATALOGUE
from slurm_hooks.deploy import PACKAGE

_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_DAY = "|".join(_DAYS)
_KINDS = ("cron", "scrontab", "service", "timer")

_SCHEDULE: Mapping[str, Value] = {
    "at": Value(r"([01][0-9]|2[0-3]):[0-5][0-9]", "03:15", "time of day, 00:00 to 23:59"),
    "days": Value(
        rf"(({_DAY})(,({_DAY}))*)?", "", "Sun, Mon, …, with commas between; empty: every day"
    ),
    "limit_h": Value(r"[1-9]|1[0-9]|2[0-3]", "4", "hours after which a run is stopped, at most 23"),
    "idle_only": Value(BOOL, "true", "false: also nodes that Holdfast drained"),
    "checks": Value(r"[a-z0-9_,]*", "", "with commas between; empty: active.inspect"),
    "home": Value(PATH, "/opt/holdfast", "where Holdfast is installed, there and on the nodes"),
}


def command(values: Mapping[str, str]) -> list[str]:
    """The command line of ``holdfast inspect``. Raises ``UsageError`` for a check that does not exist."""
    checks = [name for name in values["checks"].split(",") if name]
    unknown = next((name for name in checks if name not in CATALOGUE), None)
    if unknown is not None:
        known = ", ".join(CATALOGUE)
        raise UsageError(f"inspection: no active check is called {unknown!r}; known: {known}")
    return [
        f"{values['home'].rstrip('/')}/bin/holdfast",
        "inspect",
        *(["--idle"] if values["idle_only"] == "true" else []),
        *(word for name in checks for word in ("--check", name)),
    ]


def _schedule(values: Mapping[str, str]) -> Mapping[str, object]:
    hour, minute = (int(part) for part in values["at"].split(":"))
    days = [day for day in _DAYS if day in values["days"].split(",")]
    numbers = ",".join(str(_DAYS.index(day)) for day in days) or "*"
    return {
        "cron": f"{minute} {hour} * * {numbers}",
        "calendar": f"{','.join(days)} *-*-* {values['at']}:00".strip(),
        "limit_s": int(values["limit_h"]) * 3600,
    }


def _host(values: Mapping[str, str]) -> Mapping[str, object]:
    words = command(values)
    if values["config"] != str(DEFAULT_PATH):
        words += ["--config", values["config"]]
    return {**_schedule(values), "line": " ".join(words)}


_DAEMONS = {
    "munge": ("munged", "/run/munge/munge.socket.2"),
    "slurm": ("sackd", "/run/slurm/sack.socket"),
}
"""AuthType without ``auth/`` → the daemon that Slurm's commands ask, and its socket."""


def _cronjob(values: Mapping[str, str]) -> Mapping[str, object]:
    daemon, socket = _DAEMONS[values["auth"]]
    return {
        **_schedule(values),
        "command": command(values),
        "daemon": daemon,
        "socket": socket,
        "socket_folder": str(PurePosixPath(socket).parent),
        "auth_image": values["auth_image"] or values["image"],
    }


INSPECTION = Document(
    about="inspections of idle nodes on a schedule: cron, scrontab, systemd",
    package=PACKAGE,
    template="inspection/host.j2",
    context=_host,
    values={
        "kind": Value(
            "|".join(_KINDS),
            "cron",
            "cron: for /etc/cron.d; scrontab: Slurm's own; service and timer: systemd's two units",
        ),
        **_SCHEDULE,
        "config": Value(PATH, str(DEFAULT_PATH), "its configuration, there and on the nodes"),
        "output": Value(
            JOB_PATH, "/var/log/holdfast/inspection.log", "kind=scrontab: the job's log, on a node"
        ),
    },
)

CRONJOB = Document(
    about="the same as a CronJob of Kubernetes",
    package=PACKAGE,
    template="inspection/cronjob.yaml.j2",
    context=_cronjob,
    values={
        **_SCHEDULE,
        "image": Value(IMAGE, REQUIRED, "Slurm's client tools, and Holdfast as on the nodes"),
        "namespace": Value(NAME, "holdfast", "Slinky, Soperator: that of the cluster"),
        "time_zone": Value(r"[A-Za-z0-9_+/-]+", "Etc/UTC", "of `at`, as Europe/Berlin"),
        "config_map": Value(NAME, "holdfast", "the ConfigMap with the nodes' holdfast.yaml"),
        "slurm_conf_configmap": Value(NAME, "slurm-conf", "the ConfigMap that holds slurm.conf"),
        "auth": Value("|".join(_DAEMONS), "munge", "slurm.conf's AuthType without `auth/`"),
        "slurm_auth_secret": Value(
            NAME, "slurm-auth", "the Secret with the cluster's key: `munge.key` or `slurm.key`"
        ),
        "auth_path": Value(PATH, "/etc/slurm-auth", "where the side-car sees it"),
        "auth_image": Value(
            rf"({IMAGE})?", "", "the side-car's image, with munged or sackd; empty: the same"
        ),
        "state_claim": Value(f"({NAME})?", "", "a volume claim that keeps reports; empty: none"),
    },
)
