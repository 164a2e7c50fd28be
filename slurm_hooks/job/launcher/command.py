"""``holdfast run``: starts the job's step from the last good checkpoint and answers for its end."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.config.load import load_section
from holdfast.config.location import config_path
from holdfast.config.schema import ClusterConfig, load_cluster
from holdfast.errors import ConfigError, UsageError
from holdfast.slurm.cli import SlurmCli
from slurm_hooks.job.config import JobConfig
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.journal import Journal, path_for
from slurm_hooks.job.launcher.attempt import Job, Tools
from slurm_hooks.job.launcher.attempt_loop import Run
from slurm_hooks.job.step.step import Signals

_EPILOG = """example, in a script for sbatch --requeue:
  holdfast run --checkpoints /mnt/training/checkpoints -- srun python train.py

The command finds in its environment HOLDFAST_RESUME_FROM (path of the last good checkpoint, empty
when there is none), HOLDFAST_RESUME_STEP, HOLDFAST_ATTEMPT and HOLDFAST_JOURNAL. When it fails, the
job is started again: at once, by a requeue, or not at all; the log says why in lines that begin
with "holdfast:". The command's exit code 93 means "do not start me again". Exit status: the
command's own, 2 used wrongly."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command given after ``--`` for this job. Returns the exit status for the batch
    script.
    """
    parser = _parser()
    args = parser.parse_args(sys.argv[1:] if argv is None else list(argv))
    try:
        job = _job(args, JobContext.of(os.environ))
    except UsageError as error:
        sys.stderr.write(f"holdfast run: {error}\n")
        return 2
    return _run(job)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast run",
        usage="holdfast run [--checkpoints DIR] [--spares K] -- CMD …",
        description="Runs a job's command so that it survives bad nodes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--checkpoints",
        metavar="DIR",
        help="the folder that the command saves its checkpoints to (default: HOLDFAST_CHECKPOINTS)",
    )
    parser.add_argument(
        "--spares", metavar="K", type=int, default=0, help="hot spares: not available yet"
    )
    parser.add_argument(
        "command", metavar="CMD", nargs=argparse.REMAINDER, help="what to run, after --"
    )
    return parser


def _job(args: argparse.Namespace, context: JobContext) -> Job:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("no command; add it after --: holdfast run -- srun python train.py")
    if args.spares:
        raise UsageError(
            f"--spares {args.spares}: hot spares are not available yet; leave the option out"
        )
    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: {_why_not(command[0])}")
    if args.checkpoints == "":
        raise UsageError(
            "--checkpoints names no folder; is a variable of the script empty? (set -u tells which)"
        )
    folder = args.checkpoints or os.environ.get("HOLDFAST_CHECKPOINTS")
    if not folder:
        raise UsageError(
            "no checkpoint folder; add --checkpoints DIR or export HOLDFAST_CHECKPOINTS=DIR, "
            "the folder that the command saves to"
        )
    checkpoints = Path.cwd() / folder
    if checkpoints.exists() and not checkpoints.is_dir():
        raise UsageError(f"--checkpoints {checkpoints}: not a folder; name the folder, not a file")
    return Job(context=context, command=tuple(command), checkpoints=checkpoints)


def _why_not(command: str) -> str:
    if Path(command).is_file() and "/" in command:
        return "not executable; make it so (chmod +x), or name its interpreter before it"
    if "=" in command:
        return "no command; put env before variables that are only for the command"
    return "no such command on this node; check its name and PATH"


def _run(job: Job) -> int:
    cluster, config = _configuration()
    signals = Signals()
    tools = Tools(
        slurm=SlurmCli(cluster.slurm.timeout_s, cluster.slurm.bin),
        journal=Journal(
            path_for(job.checkpoints, job.context.job_id),
            time.time,
            restarts=job.context.restarts,
            job_start=job.context.started_at,
        ),
        config=config,
        run_dir=cluster.paths.run,
        signals=signals,
    )
    run = Run(job, tools)
    try:
        with signals.caught():
            return run.to_the_end()
    except Exception as error:  # noqa: BLE001 - a fault of ours must not end a training job
        return _without_us(job, run, error)


def _configuration() -> tuple[ClusterConfig, JobConfig]:
    """A broken configuration is told and costs nothing but its settings."""
    path = config_path()
    try:
        return load_cluster(path), load_section(path, "job", JobConfig)
    except (ConfigError, ImportError) as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"holdfast: configuration: {line}\n")
        sys.stderr.write("holdfast: configuration: going on with the defaults\n")
        return ClusterConfig(), JobConfig()


def _without_us(job: Job, run: Run, error: Exception) -> int:  # noqa: RET503 - exec
    """Holdfast gone means plain Slurm: the command is started as if we were not there."""
    told = f"holdfast: fault of ours, please report it: {type(error).__name__}: {error}\n"
    sys.stderr.write(told)
    if run.started:
        return run.last_code or 1
    sys.stderr.write("holdfast: starting the command without Holdfast\n")
    os.execvp(job.command[0], job.command)  # noqa: S606 - the user's own command, as given


if __name__ == "__main__":
    sys.exit(main())
