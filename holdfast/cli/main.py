"""The ``holdfast`` program: a table of commands, each imported only when it is called.

Exit status of every command: 0 success or yes, 1 failure or no, 2 usage error. No command prints a
traceback unless ``HOLDFAST_DEBUG`` is set: an error is one line that states what is wrong.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.cli.console import complain, say
from holdfast.errors import ConfigError, HoldfastError, UsageError
from holdfast.text.wording import did_you_mean
from holdfast.version import VERSION


class Command(NamedTuple):
    """``target`` is ``module:function``, a function ``(argv) -> exit status``."""

    target: str
    summary: str


COMMANDS: Mapping[str, Command] = {
    "run": Command(
        "slurm_hooks.job.launcher.command:main", "run a job: start, monitor, restart and requeue it"
    ),
    "check": Command(
        "slurm_hooks.cli.check.command:main", "probe this node once, as the agent does"
    ),
    "explain": Command(
        "holdfast.cli.commands.explain.command:main", "explain the state of a node or a job"
    ),
    "checkpoints": Command(
        "slurm_hooks.job.checkpoints.command:main",
        "list checkpoints: which one a job resumes from, and why",
    ),
    "diagnose": Command(
        "slurm_hooks.job.diagnosis.command:main", "find the cause of a failure in a job's logs"
    ),
    "status": Command(
        "holdfast.cli.commands.status.command:main", "show the cluster on one screen"
    ),
    "nodes": Command(
        "holdfast.cli.commands.nodes:main", "list the cluster's nodes and who drained them"
    ),
    "history": Command(
        "slurm_hooks.cli.history:main", "show what happened to a node or a GPU, and how often"
    ),
    "inspect": Command("slurm_hooks.active.command:main", "test nodes under load, as Slurm jobs"),
    "faults": Command("holdfast.cli.commands.faults:main", "show the fault catalogue"),
    "support-bundle": Command(
        "holdfast.cli.commands.support_bundle.command:main",
        "collect logs and records of a node or a job",
    ),
    "config": Command("holdfast.cli.commands.config:main", "check a configuration file"),
    "render": Command(
        "holdfast.cli.commands.render:main", "print manifests, slurm.conf lines, units, Helm values"
    ),
    "agent": Command("slurm_hooks.agent.main:main", "run the node agent (daemon)"),
    "bridge": Command("k8s_bridge.main:main", "run the bridge (controller)"),
}

USED_WRONGLY = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        say(usage())
        return 0 if words else USED_WRONGLY
    if words[0] in ("-V", "--version"):
        say(f"holdfast {VERSION}")
        return 0
    name, *rest = words
    command = COMMANDS.get(name)
    if command is None:
        hint = did_you_mean(name, COMMANDS) or "; `holdfast --help` lists the commands"
        complain(f"holdfast: no command {name!r}{hint}")
        return USED_WRONGLY
    return _guarded(name, command, rest)


def usage() -> str:
    """The text of ``holdfast --help``."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name.ljust(width)}  {command.summary}" for name, command in COMMANDS.items()]
    head = (
        "usage: holdfast COMMAND …",
        "",
        "Keeps training jobs alive on Slurm clusters that run on Kubernetes.",
        "",
    )
    tail = ("", "example: holdfast explain worker-1", "each command: holdfast COMMAND --help")
    return "\n".join((*head, *rows, *tail))


def _guarded(name: str, command: Command, argv: Sequence[str]) -> int:
    """Turn an exception into one line and an exit status."""
    try:
        return _call(command, argv)
    except SystemExit as end:  # argparse: 0 after --help, 2 after a usage error
        return end.code if isinstance(end.code, int) else USED_WRONGLY
    except (ConfigError, UsageError) as error:
        return _report(name, error, USED_WRONGLY)
    except HoldfastError as error:
        return _report(name, error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, less) has exited: the rest of the output is not needed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - users get one line, never a traceback
        if os.environ.get("HOLDFAST_DEBUG"):
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}".replace("\n", " ")
        complain(f"holdfast {name}: internal error: {what}; set HOLDFAST_DEBUG=1 for a traceback")
        return 1


def _call(command: Command, argv: Sequence[str]) -> int:
    module_name, _, function = command.target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(f"not installed here: no module {error.name}") from error
    status = getattr(module, function)(list(argv))
    return int(status or 0)


def _report(name: str, error: Exception, status: int) -> int:
    for line in str(error).splitlines() or [type(error).__name__]:
        complain(f"holdfast {name}: {line}")
    return status
