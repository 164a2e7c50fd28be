"""Runs one active check on this node, inside its test job.

``python -I -m slurm_hooks.active.run_on_node NAME`` prints the result as one marked line of JSON. For
a check of two nodes, each rank executes the program itself, and the caller reads its output. An
error in this module is never evidence against the node: the result is error.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.adapters import jsonl
from holdfast.adapters.command import complete
from holdfast.config.load import load_section
from holdfast.config.path import config_path
from holdfast.config.schema import PathsConfig, load_cluster
from holdfast.errors import CommandError, HoldfastError, Unavailable
from holdfast.history import store
from holdfast.history.event import ACTIVE_CHECK, Event
from holdfast.records import verdict_file
from slurm_hooks.active import CATALOGUE, load
from slurm_hooks.active.config import ActiveConfig
from slurm_hooks.active.program import Missing, Node, Ran
from slurm_hooks.active.result import Judged, could_not_run, encode
from slurm_hooks.node import machine
from slurm_hooks.settings.sections import AgentConfig, NodeConfig
from slurm_hooks.worker.worker import Worker, call

_HISTORY_S = 3.0
_SEEN_S = 10.0
"""How long the node's agent may take to see the test."""
_UNSET = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES")
"""Slurm's GRES sets these to all GPUs of the node; dcgmi then prints a warning before its JSON."""


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="slurm_hooks.active.run_on_node", allow_abbrev=False)
    parser.add_argument("check", choices=CATALOGUE)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--for-return", action="store_true")
    args = parser.parse_args(argv)
    if not args.for_return:
        wait_for_agent(config_path(args.config))
    try:
        judged = run(args.check, config_path(args.config), for_return=args.for_return)
    except HoldfastError as error:
        judged = could_not_run(str(error))
    except Exception as error:  # noqa: BLE001 - an internal error is no evidence about the node
        judged = could_not_run(f"internal error: {type(error).__name__}: {error}")
    sys.stdout.write(encode(args.check, judged) + "\n")
    sys.stdout.flush()
    if not args.for_return:  # the agent records its own tests
        note(args.check, judged, config_path(args.config))
    return 0


def wait_for_agent(config: Path, most_s: float = _SEEN_S) -> None:
    """If the agent has drained this node, wait until it has seen that the node is undrained for a test.

    The drain that follows the test has the same reason and a new time. An agent that has not seen the
    test takes it for a person's drain and never ends it.
    """
    try:
        paths = load_cluster(config).paths
        boot_id = machine.boot_id(paths.procfs)
        until = time.monotonic() + most_s
        while _is_on_record(paths, boot_id) and time.monotonic() < until:
            time.sleep(0.1)
    except (HoldfastError, OSError, ValueError):
        return


def _is_on_record(paths: PathsConfig, boot_id: str) -> bool:
    """Whether the running agent has a drain on record with the time that slurmctld shows."""
    verdict = verdict_file.read(
        verdict_file.path_in(paths.run), boot_id=boot_id, uptime_s=machine.uptime_s(paths.procfs)
    )
    decision = verdict.detail.get("decision")
    made = decision.get("made") if isinstance(decision, dict) else None
    return verdict.fresh and isinstance(made, dict) and made.get("at") is not None


def note(check: str, judged: Judged, config: Path) -> None:
    """Write the result into this node's history. If that hangs or fails, nothing else is affected:
    the result is already printed.
    """
    try:
        paths = load_cluster(config).paths
        most = load_section(config, "agent", AgentConfig).history_max_bytes
        event = Event(
            t=time.time(),
            event=ACTIVE_CHECK,
            node=machine.node_name(),
            boot_id=machine.boot_id(paths.procfs),
            detail=f"{check} {judged.verdict.value}: {judged.detail}",
            facts={"check": check, "verdict": judged.verdict.value},
        )
    except (HoldfastError, OSError):
        return

    def open_() -> Callable[[Any], Iterator[Any]]:
        def serve(_request: object) -> Iterator[Any]:
            line = jsonl.encode(event.record())
            store.append(paths.history_folder, event.node, line, max_bytes=most)
            yield True

        return serve

    call(Worker("history", open_, keep=False), None, deadline_s=_HISTORY_S)


def describe(config: Path, *, for_return: bool = False) -> tuple[Node, ActiveConfig]:
    """The node and the limits, from the configuration. Raises ``ConfigError``."""
    node = load_section(config, "node", NodeConfig)
    active = load_section(config, "active", ActiveConfig)
    described = Node(
        gpus=node.expected_gpus,
        mounts=node.mounts,
        config=config,
        torch_python=active.torch_python,
        nccl_tests=active.nccl_tests,
        for_return=for_return,
    )
    return described, active


def run(name: str, config: Path, *, for_return: bool) -> Judged:
    """Run the check to its end or its time limit. For a check of two nodes this does not return."""
    node, active = describe(config, for_return=for_return)
    check, level, limits = load(name), CATALOGUE[name].level, active.limits(name)
    try:
        argv = check.command(node, limits, level)
    except Missing as error:
        return could_not_run(str(error))
    if check.nodes > 1:
        _exec(argv)
    limit_s = check.time_limit_s(limits, level)
    return check.read(execute(argv, limit_s), node, limits, level)


def execute(argv: Sequence[str], limit_s: float) -> Ran:
    """Run a program; one that hangs is abandoned. Raises ``Missing`` if it cannot start."""
    begin = time.monotonic()
    try:
        done = complete(argv, timeout_s=limit_s, env=dict.fromkeys(_UNSET))
    except Unavailable as error:
        if time.monotonic() - begin < limit_s:
            raise
        return Ran(status=None, out=error.output, limit_s=limit_s)
    except CommandError as error:
        raise Missing(f"{argv[0]}: {error.problem}") from None
    return Ran(status=done.status, out=done.out, err=done.err, limit_s=limit_s)


def _exec(argv: Sequence[str]) -> None:
    sys.stdout.flush()
    os.execv(argv[0], list(argv))  # noqa: S606 - one rank of a job


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
