"""``scripts/test fresh``: the README's commands must set themselves up on a minimal Debian."""

from __future__ import annotations

import argparse
import fcntl
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from testbed import kube
from testbed.errors import SandboxError
from testbed.paths import TREE, cache

from fresh_machine import changed, containerfile
from fresh_machine.machine import Machine
from fresh_machine.page import shell_block

LIMIT_S = 3600
_SHORT = ("awkward", "install-bookworm", "image")
"""The machines of the shorter run."""
DEMO = ("scripts/demo", "--skip-baseline")
UNIT = ("scripts/test", "unit")
LINT = ("scripts/test", "lint")
_DOES_NOT_REAP = ("perl", "-e", "exit(system(@ARGV) ? 1 : 0)")
"""A process 1 that waits only for its own child; a minimal Debian has perl."""
_KUBE = "opt/kube-programs"
_WHEEL = """\
apt-get update && apt-get install -y --no-install-recommends ca-certificates python3-venv
python3 -m venv /tmp/wheel && /tmp/wheel/bin/pip wheel --no-deps -w dist ."""
_AS_THE_BRIDGE = """\
cd / && printf 'ClusterName=x\\nSlurmctldHost=x\\n' >/tmp/slurm.conf && export SLURM_CONF=/tmp/slurm.conf
as_bridge='setpriv --reuid=holdfast --regid=holdfast --clear-groups'
$as_bridge holdfast bridge --help && $as_bridge scontrol --version
ls /usr/lib/*/slurm-wlm/auth_jwt.so"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One machine. ``place``: path of the checkout. ``under``: prefix of each command.

    ``steps``: name -> command. ``env``: environment variables besides PATH.
    """

    name: str
    suite: str
    place: str
    steps: Mapping[str, Sequence[str]]
    under: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022


def cases(page: str) -> Iterator[Case]:
    """All test machines. ``page``: the text of docs/howto/install.md."""
    # The demo is process 1 here, as in a container that it was started in.
    yield Case(
        name="awkward",
        suite="bookworm",
        place="/srv/hold fast",
        steps={"demo": DEMO, "unit": UNIT},
        under=("sh", "-c", "umask 077; trap '' INT QUIT HUP; exec \"$@\"", "sh"),
        umask=0o077,
    )
    yield Case(
        name="plain",
        suite="trixie",
        place="/srv/holdfast",
        steps={"demo": DEMO, "unit": UNIT, "lint": LINT},
        under=_DOES_NOT_REAP,
        env={"HOME": "/root"},
    )
    block = shell_block(page, "## 1. The program, on every node")
    commands = "holdfast faults XID79 && /opt/holdfast/bin/holdfast --help && cd / && /opt/holdfast/hooks/prolog"
    for suite in ("bookworm", "trixie"):
        yield Case(
            name=f"install-{suite}",
            suite=suite,
            place="/srv/holdfast",
            steps={"install.md": ("sh", "-euxc", f"{block}\n{commands}")},
            env={"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"},
        )
    image = containerfile.script((TREE / "images/bridge/Containerfile").read_text())
    yield Case(
        name="image",
        suite="trixie",
        place="/srv/holdfast",
        steps={"image": ("sh", "-euxc", f"{_WHEEL}\n{image}\n{_AS_THE_BRIDGE}")},
        env={"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"},
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/test fresh", description=__doc__, allow_abbrev=False
    )
    every = list(cases((TREE / "docs/howto/install.md").read_text()))
    parser.add_argument(
        "names",
        nargs="*",
        metavar="MACHINE",
        help=", ".join(case.name for case in every) + "; default: all",
    )
    parser.add_argument(
        "--changed",
        action="store_true",
        help="a shorter run (no unit tests, Kubernetes from this machine), only when the set-up has changed "
        "since the last pass",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the machines' folders in the cache"
    )
    args = parser.parse_args(argv)
    unknown = set(args.names) - {case.name for case in every}
    if unknown:
        parser.error(
            f"unknown machine '{min(unknown)}'; known: {', '.join(case.name for case in every)}"
        )
    chosen = [case for case in every if not args.names or case.name in args.names]
    passed = changed.passed(cache())
    if args.changed:
        if passed.exists():
            say("fresh machine: the set-up has not changed since it last passed")
            return 0
        chosen = [case for case in chosen if case.name in _SHORT]
    try:
        with _locked(cache() / "fresh"):
            results = [try_out(case, short=args.changed, keep=args.keep) for case in chosen]
    except (SandboxError, OSError, subprocess.CalledProcessError) as error:
        say(f"scripts/test fresh: {error}")
        return 2
    good = all(results)
    if good and (args.changed or not args.names):
        passed.touch()
    return 0 if good else 1


def _locked(folder: Path) -> TextIO:
    """Lock the machines in ``folder`` until the returned file is closed; waits for other processes."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def try_out(case: Case, *, short: bool, keep: bool) -> bool:
    """Run every step of a case and report each. True when all passed."""
    say(f"fresh machine '{case.name}': Debian {case.suite}, checkout in '{case.place}'")
    machine = Machine.install(case.suite, cache() / "fresh" / "machines" / case.name, cache())
    machine.check_out(case.place, case.umask)
    env = dict(case.env)
    if short:
        programs = kube.binaries(cache(), say).etcd.parent
        machine = Machine(root=machine.root, shared={programs: _KUBE})
        env["KUBEBUILDER_ASSETS"] = f"/{_KUBE}"
    good = True
    for name, command in case.steps.items():
        if short and name in ("unit", "lint"):
            continue
        log = TREE / "out/fresh" / f"{case.name}-{name}.log"
        inside = [
            "sh",
            "-c",
            'cd "$1" && shift && exec "$@"',
            "sh",
            case.place,
            *case.under,
            *command,
        ]
        good = _step(name, machine.argv(inside, env), log) and good
    if not keep:
        machine.remove()
    return good


def _step(name: str, argv: Sequence[str], log: Path) -> bool:
    """Run one command without a terminal, with its output in ``log``; print the end of it on a failure."""
    log.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with log.open("w") as output:
        output.write(f"$ {shlex.join(argv)}\n")
        output.flush()
        try:
            status = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False,
                timeout=LIMIT_S, start_new_session=True,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = -1
    took = f"{time.monotonic() - begin:4.0f} s"
    if status == 0:
        say(f"  {name:12} ok   {took}")
        return True
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
    say(f"  {name:12} FAILED (status {status}) {took}; full output: {log}\n{tail}")
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
