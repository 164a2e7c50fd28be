"""Accuracy of ``holdfast diagnose`` on a folder of logs. Its speed: ``scripts/bench log``.

The folder holds logs and ``labels.tsv``, with a line for each log: its name, the class that its cause has
(``none``: nothing failed, or the log does not tell), a part of the line that is the cause, and the hosts
that the log makes suspect, separated by commas (``-``: none). Separated by tabs.

    PYTHONPATH=scripts:. .venv/bin/python -m measure.causes FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.job.diagnosis.causes import CLASS_OF, Engine
from slurm_hooks.job.diagnosis.lines.line import Diagnosis

_BLOCK_BYTES = 256 << 10


@dataclass(frozen=True, kw_only=True)
class Label:
    """What a person found to be the cause."""

    name: str
    kind: str
    root: str
    hosts: frozenset[str]


def labels(folder: Path) -> Iterator[Label]:
    """The lines of ``labels.tsv``."""
    for line in (folder / "labels.tsv").read_text().splitlines():
        name, kind, root, hosts = line.split("\t")
        known = frozenset() if hosts == "-" else frozenset(hosts.split(","))
        yield Label(name=name, kind=kind, root=root, hosts=known)


def diagnosed(data: bytes) -> Diagnosis:
    """The diagnosis of one log."""
    engine = Engine()
    for begin in range(0, len(data), _BLOCK_BYTES):
        engine.feed("log", data[begin : begin + _BLOCK_BYTES])
    engine.end("log")
    return engine.diagnosis()


def accuracy(folder: Path) -> None:
    """Prints how often class, line and hosts are right, and each log that is wrong."""
    failed = right_class = right_line = no_answer = clean = false = with_hosts = named = 0
    for label in labels(folder):
        found = diagnosed((folder / label.name).read_bytes())
        kind = CLASS_OF[found.cause.signature.kind] if found.cause else "none"
        text = found.cause.line.text.strip() if found.cause else ""
        wrong = kind != label.kind or (label.kind != "none" and label.root not in text)
        if wrong:
            print(f"{label.name}: {label.kind} expected, {kind}: {text[:100]}")
        if label.kind == "none":
            clean += 1
            false += found.cause is not None
            continue
        failed += 1
        no_answer += found.cause is None
        right_class += kind == label.kind
        right_line += label.root in text and bool(text)
        with_hosts += bool(label.hosts)
        named += bool(label.hosts) and label.hosts <= set(found.suspects)
    print(f"logs of failures: {failed}; class right {right_class}, line right {right_line}")
    print(f"no answer: {no_answer}; hosts named: {named} of {with_hosts}")
    print(f"logs without a cause: {clean}; false causes: {false}")


def main(argv: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="measure.causes", description=__doc__.splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("folder", type=Path, help="logs and labels.tsv")
    accuracy(parser.parse_args(argv).folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
