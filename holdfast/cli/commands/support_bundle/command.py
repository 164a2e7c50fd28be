"""``holdfast support-bundle NODE`` and ``JOB``: what is needed to find a fault, in one archive.

The archive has the output of commands, and files of this machine. Every command has a time limit, every file
is read through ``safe_file`` up to a limit, and what looks like a password, key or token is removed. A part
that cannot be read is listed in ``manifest.json`` with the cause.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import re
import socket
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.adapters import safe_file
from holdfast.adapters.command import complete
from holdfast.cli import site_config
from holdfast.cli.commands.support_bundle.redaction import redacted
from holdfast.cli.console import complain, say
from holdfast.errors import CommandError, UsageError
from holdfast.own_program import own_program
from holdfast.slurm import accounting
from holdfast.slurm.cli import ENV
from holdfast.text import printable
from holdfast.version import VERSION

EXAMPLE = """\
examples:
  holdfast support-bundle worker-1        # run it on worker-1, as root: its logs are there
  holdfast support-bundle 1234
  holdfast support-bundle 1234 --output /tmp/bundle.tar.gz

The archive contains logs, verdict, records, versions and what Slurm knows. Passwords, keys and tokens
of the usual forms are removed; read it before you send it to others. Only you can read the file.

exit status: 0 written, 1 the archive cannot be written, 2 usage error
"""

_COMMAND_S = 60.0
_MAX_BYTES = 4 << 20
"""Of one file: the end of a larger log."""
_MAX_STATE_FILES = 200
_JOB = re.compile(r"[0-9]+(_[0-9]+)?")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_LOGS = Path("/var/log/holdfast")
_JSON = (".json", ".jsonl")
_PRIVATE = re.compile(r"token|secret|key|credential|kubeconfig", re.IGNORECASE)
"""Names of files that are left out whole."""
_SPARE = ".spare"
"""Files that only keep room on the disk."""


@dataclass(kw_only=True)
class Bundle:
    """``parts``: name in the archive → text. ``missing``: name → why it could not be read."""

    parts: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Without what looks secret, and without what could control a terminal: users may have written it."""
        safe = printable.json_text if Path(name).suffix in _JSON else printable.page
        self.parts[name] = safe(redacted(text))

    def add_file(self, name: str, path: Path) -> None:
        """The end of a file. A user may have made it: only a regular file is read."""
        if _PRIVATE.search(path.name):
            return
        try:
            file, size_bytes, _ = safe_file.open_regular(path)
            with file:
                file.seek(max(0, size_bytes - _MAX_BYTES))
                data = file.read(_MAX_BYTES)
        except OSError as error:
            self.missing[name] = f"{path}: {error.strerror or error}"
            return
        self.add(name, data.decode("utf-8", "replace"))

    def add_output(self, name: str, argv: Sequence[str], env: Mapping[str, str | None]) -> None:
        """What a command prints, and its exit status."""
        try:
            done = complete(argv, timeout_s=_COMMAND_S, env=env)
        except CommandError as error:
            self.missing[name] = str(error)
            return
        if done.out or not done.status:
            self.add(name, done.out)
        if done.err or done.status:
            self.add(f"{name}.stderr", f"{done.err.rstrip()}\nexit status {done.status}\n")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast support-bundle",
        description="Collect what is needed to find a fault of a node or a job in one archive.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", metavar="NODE|JOB", help="a node's name or a job's number")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="default: holdfast-NODE|JOB-TIME.tar.gz here"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """The command."""
    arguments = parser().parse_args(argv)
    what: str = arguments.what
    if not _NODE.fullmatch(what):
        raise UsageError(f"{what!r} is neither a node's name nor a job's number")
    stem = f"holdfast-{what}-{time.strftime('%Y%m%dT%H%M%S')}"
    path: Path = arguments.output or Path(f"{stem}.tar.gz")
    bundle = collect(what, site_config.load())
    try:
        write(bundle, path, stem)
    except OSError as error:
        complain(f"holdfast support-bundle: {path}: {error.strerror or error}")
        return 1
    say(f"{path}: {len(bundle.parts)} files; {len(bundle.missing)} not readable here")
    say("read it before you send it to others: only the usual forms of secrets are removed")
    return 0


def collect(what: str, found: site_config.SiteConfig) -> Bundle:
    """Everything about a node or a job that can be read here."""
    bundle, job = Bundle(), _JOB.fullmatch(what) is not None
    with ThreadPoolExecutor(max_workers=4) as pool:
        for name, argv in _commands(what, found.cluster.slurm.bin, job=job):
            pool.submit(bundle.add_output, name, argv, ENV if "/" in name else {})
    bundle.add_file("holdfast.yaml", found.path)
    run, state = found.cluster.paths.run, found.cluster.paths.state
    for name, path in _files(what, run, state, bundle, job=job):
        bundle.add_file(name, path)
    if job:
        _add_journal(bundle)
    bundle.add("problems.txt", "\n".join([*found.problems, *found.kill_switches()]) + "\n")
    bundle.parts["manifest.json"] = json.dumps(_manifest(what, bundle), indent=2) + "\n"
    return bundle


def _commands(what: str, slurm_bin: str, *, job: bool) -> Iterator[tuple[str, list[str]]]:
    """Name in the archive and command line; those of Slurm are in a folder."""
    own = own_program("holdfast")
    yield "explain.txt", [*own, "explain", what]
    yield "explain.json", [*own, "explain", what, "--json"]
    yield "nodes.json", [*own, "nodes", "--json"]
    if not job:
        yield "history.json", [*own, "history", what, "--json"]
        if what == socket.gethostname().partition(".")[0]:
            yield "check.json", [*own, "check", "--json"]
    kind = ["job", what] if job else ["node", what]
    slurm = {
        "version": ["scontrol", "--version"],
        "config": ["scontrol", "show", "config"],
        "ping": ["scontrol", "ping"],
        f"{kind[0]}.txt": ["scontrol", "show", *kind, "--details"],
        "reservations.txt": ["scontrol", "show", "reservation"],
        "sinfo.txt": ["sinfo", "--all", "--long", "--Node"],
        "sdiag.txt": ["sdiag"],
        "accounting.txt": accounting.job_argv(what)
        if job
        else ["sacctmgr", "--noheader", "--parsable2", "show", "event", f"nodes={what}"],
    }
    for name, (tool, *rest) in slurm.items():
        yield f"slurm/{name}", [str(Path(slurm_bin) / tool) if slurm_bin else tool, *rest]
    if not job:
        yield "system/kernel.log", ["dmesg", "--ctime"]
        yield "system/nvidia-smi.txt", ["nvidia-smi", "-q"]


def _files(
    what: str, run: Path, state: Path, bundle: Bundle, *, job: bool
) -> Iterator[tuple[str, Path]]:
    """The files of this machine's agent."""
    if job:
        yield "agent/report.json", run / "reports" / f"{what.partition('_')[0]}.json"
        yield "agent/marker.json", run / "jobs" / f"{what.partition('_')[0]}.json"
        return
    yield "agent/verdict", run / "verdict"
    yield "agent/metrics.prom", run / "metrics.prom"
    for folder, names in ((state, "agent/state"), (_LOGS, "logs")):
        try:
            entries = safe_file.scan(folder, most=_MAX_STATE_FILES)
            names_found = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        except OSError as error:
            bundle.missing[names] = f"{folder}: {error.strerror or error}"
            continue
        files = sorted(name for name in names_found if _SPARE not in name)
        yield from ((f"{names}/{name}", folder / name) for name in files)


def _add_journal(bundle: Bundle) -> None:
    """The job's journal, which ``holdfast explain`` found."""
    try:
        journal = json.loads(bundle.parts.get("explain.json", "{}")).get("journal")
    except ValueError:
        journal = None
    if journal:
        bundle.add_file("journal.jsonl", Path(journal))
    else:
        bundle.missing["journal.jsonl"] = "not found (holdfast explain JOB --checkpoints DIR)"


def _manifest(what: str, bundle: Bundle) -> dict[str, Any]:
    return {
        "what": what,
        "at": int(time.time()),
        "host": socket.gethostname(),
        "user": os.geteuid(),
        "versions": {
            "holdfast": VERSION,
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
        "files": sorted(bundle.parts),
        "missing": dict(sorted(bundle.missing.items())),
    }


def write(bundle: Bundle, path: Path, stem: str) -> None:
    """The archive at ``path``, which must not exist, readable for its owner only. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in sorted(bundle.parts.items()):
            data = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
