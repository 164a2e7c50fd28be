"""``holdfast inspect``: test idle nodes, and drained ones of ours, as Slurm jobs; one page."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from holdfast.adapters.state_file import write_atomic
from holdfast.cli.console import complain, say, say_json, table
from holdfast.config.load import load_section
from holdfast.config.location import ALL, config_path, switches_off
from holdfast.config.schema import load_cluster
from holdfast.errors import UsageError
from holdfast.policy import budget
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import SlurmName
from slurm_hooks.active import CATALOGUE, load
from slurm_hooks.active.inspector import Candidate, Inspector
from slurm_hooks.active.node_reservation import NodeReservation, this_process
from slurm_hooks.active.page import Inspected, as_json, as_text, exit_status
from slurm_hooks.active.run_on_node import describe
from slurm_hooks.settings.sections import NodeConfig

EXAMPLE = """\
examples:
  holdfast inspect                          # idle nodes, and drained ones of Holdfast's
  holdfast inspect --idle --json            # for a schedule: only what is idle now
  holdfast inspect worker-3 --check dcgm_diag_r3 --check gpu_burn
  holdfast inspect --list                   # the checks, and what each one needs

Each check runs as a Slurm job of root's in a maintenance reservation, so no user's job comes between.
A drained node is undrained inside it and drained again with its old reason, whatever the checks say:
giving it back is its agent's (agent.gate_back). What a killed inspection left behind is put back by
the next one. The report is kept in paths.state/inspections, too.

exit status: 0 every node that was tested passed all checks, 1 a check failed or no node could be
tested, 2 used wrongly, 3 no check failed, and some could not run (that is no pass)
"""

_SETTLE_S = 3.0
"""For the epilog of a job that was ended: until then its node reads as busy."""


def main(argv: Sequence[str]) -> int:
    """The command. Raises ConfigError, UsageError and CommandError."""
    asked = _parser().parse_args(argv)
    if asked.list:
        say(_catalogue())
        return 0
    config = config_path(asked.config)
    if ALL in switches_off(config):
        raise UsageError(f"every action is switched off ({config.parent}/off/all)")
    if os.geteuid() != 0:
        raise UsageError("only root may reserve nodes: run it as root (sudo holdfast inspect …)")
    checks = _checks(asked.check, config)
    cluster = load_cluster(config)
    slurm = SlurmMaintenance(cluster.slurm.timeout_s, cluster.slurm.bin)
    keeper = NodeReservation(slurm, this_process(), config)
    left = keeper.sweep()
    for name in left:
        complain(f"holdfast inspect: put back what was left behind ({name})")
    if left:
        time.sleep(_SETTLE_S)
    inspector = Inspector(slurm, keeper, at_once=_at_once(asked.at_once, slurm, config), say=_tell)
    found = inspector.candidates([SlurmName(name) for name in asked.node], idle_only=asked.idle)
    began = time.time()
    done = inspector.inspect(_wanted(found, bool(asked.node)), checks)
    _report(done, began, cluster.paths.state / "inspections", config, as_one_json=asked.json)
    return exit_status(done)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast inspect",
        description="Test nodes under load, as Slurm jobs, and report on one page.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "node", nargs="*", metavar="NODE", help="only these (default: all that are idle or drained)"
    )
    parser.add_argument("--idle", action="store_true", help="no drained nodes")
    parser.add_argument(
        "--check",
        action="append",
        metavar="NAME",
        help="instead of active.inspect; may be repeated",
    )
    parser.add_argument("--at-once", type=int, metavar="N", help="nodes (default: node.budget)")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")
    parser.add_argument("--list", action="store_true", help="show the checks and end")
    parser.add_argument("--config", help="default: $HOLDFAST_CONFIG, else /etc/holdfast/…")
    return parser


def _checks(names: Sequence[str] | None, config: Path) -> list[str]:
    _, active = describe(config)
    wanted = list(dict.fromkeys(names or active.inspect))
    for name in wanted:
        if name not in CATALOGUE:
            raise UsageError(f"no active check is called {name!r}; known: {', '.join(CATALOGUE)}")
    if not wanted:
        raise UsageError("no check to run: active.inspect is empty")
    return wanted


def _at_once(asked: int | None, slurm: SlurmMaintenance, config: Path) -> int:
    """As many nodes as Holdfast may take out of service at the same time, unless it is told."""
    if asked is not None:
        if asked < 1:
            raise UsageError(f"--at-once must be at least 1, got {asked}")
        return asked
    limits = load_section(config, "node", NodeConfig).budget
    return max(1, budget.allowed(limits, len(slurm.nodes_fast())))


def _wanted(found: Sequence[Candidate], named: bool) -> list[Candidate]:
    """Nodes that nobody asked for by name and that are simply at work are no news."""
    return [one for one in found if named or one.was != "busy"]


def _report(
    done: Sequence[Inspected], began: float, folder: Path, config: Path, *, as_one_json: bool
) -> None:
    ended = time.time()
    at = datetime.fromtimestamp(began, timezone.utc).astimezone()
    page = as_text(done, began=at, took_s=ended - began)
    said = as_json(done, began=began, ended=ended)
    name = at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / f"{name}.txt", page + "\n")
        write_atomic(folder / f"{name}.json", json.dumps(said, indent=2) + "\n")
        _, active = describe(config)
        _prune(folder, active.keep_reports)
    except OSError as error:
        complain(f"holdfast inspect: report not kept: {error}")
    if as_one_json:
        say_json(said)
    else:
        say(page)


def _prune(folder: Path, keep: int) -> None:
    for suffix in ("txt", "json"):
        for old in sorted(folder.glob(f"????-??-??T??????Z.{suffix}"))[:-keep]:
            with suppress(OSError):
                old.unlink()


def _tell(line: str) -> None:
    complain(f"holdfast inspect: testing {line}")


def _catalogue() -> str:
    rows = [(name, row.summary, load(name).needs) for name, row in CATALOGUE.items()]
    return table([("CHECK", "WHAT", "NEEDS"), *rows])
