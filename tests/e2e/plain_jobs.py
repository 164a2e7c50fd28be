"""Jobs without ``holdfast run``."""

from __future__ import annotations

from testbed.box import Box


def submit(box: Box, *options: str, command: str) -> str:
    """A job of alice on one node, which Slurm may requeue. Returns its ID."""
    words = ["sbatch", "--parsable", "--nodes=1", "--requeue", "--chdir=/tmp", "--output=/dev/null"]
    return box.run([*words, *options, f"--wrap={command}"], user="alice").stdout.strip()


def shown(box: Box, job: str, what: str) -> str:
    """A field of ``squeue --Format``."""
    return box.run(["squeue", "--noheader", f"--jobs={job}", f"--Format={what}"]).stdout.strip()
