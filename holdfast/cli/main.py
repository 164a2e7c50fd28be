"""The ``holdfast`` program: a literal table, name → module, imported only when called.

Exit status of every command: 0 done or yes, 1 the answer is no, 2 used wrongly. No command prints
a traceback unless ``HOLDFAST_DEBUG`` is set: a person reads one line that says what is wrong.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.cli.console import complain, say
from holdfast.errors import ConfigError, HoldfastError, UsageError
from holdfast.version import VERSION


class Command(NamedTuple):
    """``target`` is ``module:function``, a function ``(argv) -> exit status``."""

    target: str
    summary: str


COMMANDS: Mapping[str, Command] = {
    "run": Command(
        "slurm_hooks.job.launcher.command:main", "run a job: start, watch, restart, requeue"
    ),
    "check": Command(
        "slurm_hooks.cli.check.command:main", "probe this node once, as the agent would"
    ),
    "explain": Command("holdfast.cli.explain:main", "why a node or a job is as it is"),
    "checkpoints": Command(
        "slurm_hooks.job.checkpoints.command:main", "what would be resumed, why others would not"
    ),
    "diagnose": Command(
        "slurm_hooks.job.diagnosis.command:main", "the cause of a failure, from its logs"
    ),
    "nodes": Command("holdfast.cli.nodes:main", "the cluster's nodes and who drained them"),
    "history": Command(
        "slurm_hooks.cli.history:main", "what happened to a node or a GPU, and how often"
    ),
    "inspect": Command(
        "slurm_hooks.active.command:main", "test nodes under load, as Slurm jobs; one page"
    ),
    "faults": Command("holdfast.cli.faults:main", "the fault catalogue"),
    "config": Command("holdfast.cli.config:main", "check a configuration file"),
    "render": Command("holdfast.cli.render:main", "manifests, slurm.conf lines, units, values"),
    "agent": Command("slurm_hooks.agent.main:main", "the resident process of a node"),
    "bridge": Command("k8s_bridge.main:main", "the resident process of a cluster"),
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
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else "`holdfast --help` lists them"
        complain(f"holdfast: no command {name!r}; {hint}")
        return USED_WRONGLY
    return _guarded(name, command, rest)


def usage() -> str:
    """The page of ``holdfast --help``."""
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
    """The one place that turns an exception into a line and an exit status."""
    try:
        return _call(command, argv)
    except SystemExit as end:  # argparse: 0 after --help, 2 after a usage error
        return end.code if isinstance(end.code, int) else USED_WRONGLY
    except (ConfigError, UsageError) as error:
        return _say_why(name, error, USED_WRONGLY)
    except HoldfastError as error:
        return _say_why(name, error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who read us (head, less) is gone; nothing of what is left is wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - a person must never read a traceback
        if os.environ.get("HOLDFAST_DEBUG"):
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}".replace("\n", " ")
        complain(f"holdfast {name}: a fault of ours: {what}; HOLDFAST_DEBUG=1 shows where")
        return 1


def _call(command: Command, argv: Sequence[str]) -> int:
    module_name, _, function = command.target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(f"not installed here: no module {error.name}") from error
    status = getattr(module, function)(list(argv))
    return int(status or 0)


def _say_why(name: str, error: Exception, status: int) -> int:
    for one in str(error).splitlines() or [type(error).__name__]:
        complain(f"holdfast {name}: {one}")
    return status
