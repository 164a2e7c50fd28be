"""``holdfast run``: runs the job's command from the last good checkpoint and restarts it."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from holdfast.config.load import load_section
from holdfast.config.path import config_path
from holdfast.config.schema import ClusterConfig, load_cluster
from holdfast.errors import ConfigError, UsageError
from holdfast.records.job_journal import path_for
from holdfast.slurm.cli import SlurmCli
from slurm_hooks.job.checkpoints.storage_errors import is_transient
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.launcher.attempt_loop import AttemptLoop
from slurm_hooks.job.launcher.inputs import Job, Tools
from slurm_hooks.job.launcher.time_limit import BeforeLimit, signal_number
from slurm_hooks.job.launcher.time_limit import parse as parse_before_limit
from slurm_hooks.job.log import say
from slurm_hooks.job.resume.argument import (
    PathMap,
    filled,
    mounts_in,
    parse_pair,
    refusal,
    starts_container,
)
from slurm_hooks.job.step.run_step import StepSignals
from slurm_hooks.settings.job import MAX_HANG_S, MIN_HANG_S, JobConfig
from slurm_hooks.settings.notify import NotifyConfig

_EPILOG = """example, in a script for sbatch --requeue:
  holdfast run --checkpoints /mnt/training/checkpoints -- srun python train.py

Environment of the command: HOLDFAST_RESUME_FROM (path of the last good checkpoint, empty if there
is none), HOLDFAST_RESUME_STEP, HOLDFAST_ATTEMPT and HOLDFAST_JOURNAL. In arguments of the command,
{resume} is that path, {resume_parent} its folder, {resume_name} its name and {resume_step} its step;
without a checkpoint the argument is left out, and so is the option before it. When the command
fails, Holdfast restarts it on the same nodes, requeues the job, holds it or lets it fail; lines in
the job's log that begin with "holdfast:" state which and why. Exit code 93 of the command means: do
not restart.

exit status: that of the command; 143 if it was 0 and Slurm had ended the job before (cancelled,
requeued, out of time); 1 if nothing was started because of a bad node; 2 usage error"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command given after ``--``. Returns the exit status for the batch script."""
    args = parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    try:
        job = _job(args, JobContext.of(os.environ))
    except UsageError as error:
        sys.stderr.write(f"holdfast run: {error}\n")
        return 2
    return _run(job)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast run",
        usage="holdfast run [--checkpoints DIR] [--path-map HOST:CONTAINER] "
        "[--continue [SIGNAL@]SECONDS] [--hang-timeout SECONDS] [--checkpoint-signal SIGNAL] "
        "[--replace-nodes] -- CMD …",
        description="Run a job's command, and restart it elsewhere when a node fails.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--checkpoints",
        metavar="DIR",
        help="folder that the command saves its checkpoints to (default: HOLDFAST_CHECKPOINTS)",
    )
    parser.add_argument(
        "--path-map",
        metavar="HOST:CONTAINER",
        action="append",
        default=[],
        help="where a container has a folder; may be repeated (default: srun's --container-mounts)",
    )
    parser.add_argument(
        "--continue",
        dest="before_limit",
        metavar="[SIGNAL@]SECONDS",
        help="this long before the time limit, send the signal to the command; the job is requeued after its "
        "next checkpoint",
    )
    parser.add_argument(
        "--checkpoint-signal",
        metavar="SIGNAL",
        help="the signal at which the command writes a checkpoint, before the job leaves a degraded node "
        "(default: that of --continue)",
    )
    parser.add_argument(
        "--hang-timeout",
        metavar="SECONDS",
        help="restart an attempt that prints nothing and writes no checkpoint for this long; 0: never "
        "(default: job.hang_timeout_s of the configuration, 0)",
    )
    parser.add_argument(
        "--replace-nodes",
        action="store_true",
        help="when the job is requeued, another node may take the place of a bad one that sbatch -w "
        "names (default: the job waits for that node)",
    )
    parser.add_argument(
        "command", metavar="CMD", nargs=argparse.REMAINDER, help="command to run, after --"
    )
    return parser


def _job(args: argparse.Namespace, context: JobContext) -> Job:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("no command; add it after --: holdfast run -- srun python train.py")
    misused = refusal(command)
    if misused:
        raise UsageError(misused)
    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: {_why_not_runnable(command[0])}")
    if args.checkpoints == "":
        raise UsageError(
            "--checkpoints is empty; is a variable of the script unset? (set -u shows which)"
        )
    folder = args.checkpoints or os.environ.get("HOLDFAST_CHECKPOINTS")
    if not folder:
        raise UsageError(
            "no checkpoint folder; add --checkpoints DIR or export HOLDFAST_CHECKPOINTS=DIR, "
            "the folder that the command saves to"
        )
    checkpoints = Path.cwd() / folder
    problem = _folder_problem(checkpoints)
    if problem:
        raise UsageError(f"--checkpoints {checkpoints}: {problem}")
    paths = _paths(args.path_map, command)
    if starts_container(command) and not paths.covers(PurePosixPath(checkpoints)):
        say(f"{checkpoints} is not among the container's mounts (--container-mounts, --path-map)")
    before_limit = None if args.before_limit is None else parse_before_limit(args.before_limit)
    return Job(
        context=context,
        command=tuple(command),
        checkpoints=checkpoints,
        paths=paths,
        before_limit=before_limit,
        checkpoint_signal=_checkpoint_signal(args.checkpoint_signal, before_limit),
        replace_nodes=args.replace_nodes,
        hang_timeout_s=None if args.hang_timeout is None else _hang_timeout_s(args.hang_timeout),
    )


def _checkpoint_signal(name: str | None, before_limit: BeforeLimit | None) -> int | None:
    """Raises ``UsageError``."""
    if name is None:
        return before_limit.signal if before_limit else None
    return signal_number(name, f"--checkpoint-signal {name}")


def _hang_timeout_s(text: str) -> float:
    """Raises ``UsageError``."""
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else -1
    if seconds != 0 and not MIN_HANG_S <= seconds <= MAX_HANG_S:
        raise UsageError(
            f"--hang-timeout {text}: give {MIN_HANG_S} to {MAX_HANG_S} seconds, more than twice the "
            "time that the program needs to start or to save; 0: never"
        )
    return float(seconds)


def _paths(given: Sequence[str], command: Sequence[str]) -> PathMap:
    pairs = {text: parse_pair(text) for text in given}
    for text, pair in pairs.items():
        if pair is None:
            raise UsageError(f"--path-map {text}: give two absolute paths, HOST:CONTAINER")
    if pairs:
        return PathMap(pairs=tuple(pair for pair in pairs.values() if pair))
    return mounts_in(command)


def _folder_problem(folder: Path) -> str:
    """Why the command cannot save to ``folder``; empty if it can, or could create the folder."""
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        parent = next(parent for parent in folder.parents if parent.is_dir())
        if os.access(parent, os.W_OK | os.X_OK):
            return ""
        return f"does not exist, and you cannot create it in {parent}"
    except OSError as error:
        if is_transient(error):
            return ""  # the launcher waits for the storage
        return f"{error.strerror}; give a folder that you can write to"
    return "" if stat.S_ISDIR(mode) else "not a folder; give the folder, not a file"


def _why_not_runnable(command: str) -> str:
    if Path(command).is_file() and "/" in command:
        return "not executable; run chmod +x, or put its interpreter before it"
    if "=" in command:
        return "not a command; to set a variable for the command, put env before it"
    return "command not found on this node; check the name and PATH"


def _run(job: Job) -> int:
    cluster, config, notify = _configuration()
    signals = StepSignals()
    tools = Tools(
        slurm=SlurmCli(cluster.slurm.timeout_s, cluster.slurm.bin),
        journal=Journal(
            path_for(job.checkpoints, job.context.job_id),
            time.time,
            restarts=job.context.restarts,
            job_start=job.context.started_at,
        ),
        config=config,
        notify=notify,
        run_dir=cluster.paths.run,
        signals=signals,
    )
    run = AttemptLoop(job, tools)
    try:
        with signals.caught():
            return run.run_to_end()
    except Exception as error:  # noqa: BLE001 - an internal error must not end a training job
        return _run_without_holdfast(job, run, error)


def _configuration() -> tuple[ClusterConfig, JobConfig, NotifyConfig]:
    """The configuration. If it is invalid, reports the problems and returns the defaults."""
    path = config_path()
    try:
        job = load_section(path, "job", JobConfig)
        return load_cluster(path), job, load_section(path, "notify", NotifyConfig)
    except (ConfigError, ImportError) as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"holdfast: configuration: {line}\n")
        sys.stderr.write("holdfast: configuration: using the defaults\n")
        return ClusterConfig(), JobConfig(), NotifyConfig()


def _run_without_holdfast(job: Job, run: AttemptLoop, error: Exception) -> int:  # noqa: RET503 - exec
    """Without Holdfast the job behaves as under plain Slurm: the command starts as given."""
    what = f"{type(error).__name__}: {error}"
    sys.stderr.write(f"holdfast: internal error, please report it: {what}\n")
    if run.started:
        return run.last_code or 1
    sys.stderr.write("holdfast: starting the command without Holdfast\n")
    argv = filled(job.command, None, job.paths)
    os.execvp(argv[0], argv)  # noqa: S606 - the user's own command, as given


if __name__ == "__main__":
    sys.exit(main())
