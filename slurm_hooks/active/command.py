"""``holdfast inspect``: tests nodes that are idle or drained by Holdfast, and prints a report."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from holdfast.adapters.state_file import write_atomic
from holdfast.cli import site_config
from holdfast.cli.console import complain, say, say_json, screen_width
from holdfast.config.kill_switch_files import ALL, switches_off
from holdfast.config.load import load_section
from holdfast.errors import CommandError, Refused, UsageError
from holdfast.policy import budget
from holdfast.records import incidents
from holdfast.records.incidents import NODE_TESTED, Incident
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.text.tables import table
from holdfast.vocabulary import SlurmName
from slurm_hooks.active import CATALOGUE, load
from slurm_hooks.active.config import ActiveConfig
from slurm_hooks.active.inspector import InspectedNode, Inspector
from slurm_hooks.active.node_reservation import NodeReservation, this_process
from slurm_hooks.active.report import Inspected, as_json, as_text, exit_status
from slurm_hooks.active.result import CheckOutcome
from slurm_hooks.active.run_on_node import describe
from slurm_hooks.settings.sections import NodeConfig

EXAMPLE = """\
examples:
  holdfast inspect                          # nodes that are idle or drained by Holdfast
  holdfast inspect --idle --json            # for a schedule: only idle nodes
  holdfast inspect --suspects --check gpu_burn   # nodes that jobs exclude, once for each job
  holdfast inspect worker-3 --check dcgm_diag_r3 --check gpu_burn
  holdfast inspect --list                   # the checks and what each one needs

Each check runs as a Slurm job of root in a maintenance reservation, so no user job can start on the
node. A drained node is undrained inside the reservation and drained again with its old reason,
whatever the result: its agent returns it to service (agent.return_test). If an inspection is killed,
the next one restores its nodes. The report is also saved in paths.state/inspections.

exit status: 0 every tested node passed all checks, 1 a check failed or no node could be tested,
2 usage error, 3 no check failed, but some could not run (which is no pass)
"""

_REPORTS = "????-??-??T??????Z"
_SETTLE_S = 3.0
"""For the epilog of a cancelled job: until it ends, Slurm shows the node as busy."""


def main(argv: Sequence[str]) -> int:
    """The command. Raises ConfigError, UsageError and CommandError."""
    args = parser().parse_args(argv)
    if args.list:
        say(_catalogue())
        return 0
    found = site_config.load(args.config)
    _refuse(args, found.path)
    for name, schema in (("node", NodeConfig), ("active", ActiveConfig)):
        found.section(name, schema)
    config, cluster = found.valid_path, found.cluster
    checks, reports = _checks(args.check, config), cluster.paths.state / "inspections"
    slurm = SlurmMaintenance(cluster.slurm.timeout_s, cluster.slurm.bin)
    reservation = NodeReservation(slurm, this_process(), config)
    left = reservation.sweep()
    for name in left:
        complain(f"holdfast inspect: restored the nodes of an interrupted test ({name})")
    if left:
        time.sleep(_SETTLE_S)
    inspector = Inspector(
        slurm, reservation, at_once=_at_once(args.at_once, slurm, config), say=_progress
    )
    if args.suspects:
        nodes = _suspects(slurm, inspector, reports, idle_only=args.idle)
        if not nodes:
            complain("holdfast inspect: no job excludes a node that can be tested now")
            return found.complain("inspect")
    else:
        names = [SlurmName(name) for name in args.node]
        nodes = _wanted(inspector.candidates(names, idle_only=args.idle), bool(names))
    began = time.time()
    done = inspector.inspect(nodes, checks)
    tell_excluding_jobs(slurm, done)
    _report(done, began, reports, config, as_one_json=args.json)
    return found.complain("inspect") or exit_status(done)


def _refuse(args: argparse.Namespace, config: Path) -> None:
    """Raises ``UsageError``."""
    if args.suspects and args.node:
        raise UsageError("give either nodes or --suspects")
    if ALL in switches_off(config):
        raise UsageError(f"every action is switched off ({config.parent}/off/all)")
    if os.geteuid() != 0:
        raise UsageError("only root may reserve nodes: run sudo holdfast inspect …")


def _suspects(
    slurm: SlurmMaintenance, inspector: Inspector, reports: Path, *, idle_only: bool
) -> list[InspectedNode]:
    """The nodes that jobs exclude, that can be tested now and were not tested for each of these jobs."""
    excluded = untested(slurm.excluded_nodes(), known_tests(reports))
    found = inspector.candidates(sorted(excluded), idle_only=idle_only) if excluded else []
    return [
        replace(node, excluded_by=tuple(sorted(excluded[node.name])))
        for node in found
        if not node.skip
    ]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast inspect",
        description="Test nodes under load with Slurm jobs, and print a report.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "node",
        nargs="*",
        metavar="NODE",
        help="only these (default: all nodes that are idle or drained by Holdfast)",
    )
    parser.add_argument("--idle", action="store_true", help="only idle nodes, no drained ones")
    parser.add_argument(
        "--suspects",
        action="store_true",
        help="only nodes that running or pending jobs exclude, as those that holdfast run suspects; each "
        "once for each job",
    )
    parser.add_argument(
        "--check",
        action="append",
        metavar="NAME",
        help="run this check instead of those in active.inspect; may be repeated",
    )
    parser.add_argument(
        "--at-once",
        type=int,
        metavar="N",
        help="nodes to test at the same time (default: node.budget)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    parser.add_argument("--list", action="store_true", help="list the checks and exit")
    parser.add_argument(
        "--config", help="default: $HOLDFAST_CONFIG, else /etc/holdfast/holdfast.yaml"
    )
    return parser


def _checks(names: Sequence[str] | None, config: Path) -> list[str]:
    _, active = describe(config)
    wanted = list(dict.fromkeys(names or active.inspect))
    for name in wanted:
        if name not in CATALOGUE:
            raise UsageError(f"no active check named {name!r}; known: {', '.join(CATALOGUE)}")
    if not wanted:
        raise UsageError("no check to run: active.inspect is empty")
    return wanted


def _at_once(requested: int | None, slurm: SlurmMaintenance, config: Path) -> int:
    """The requested number of nodes, else as many as Holdfast may take out of service."""
    if requested is not None:
        if requested < 1:
            raise UsageError(f"--at-once must be at least 1, got {requested}")
        return requested
    limits = load_section(config, "node", NodeConfig).budget
    return max(1, budget.allowed(limits, len(slurm.nodes_fast())))


def untested(
    excluded: Mapping[SlurmName, Set[int]], tested: Mapping[str, Set[int]]
) -> dict[SlurmName, Set[int]]:
    """The excluded nodes, each with its jobs, that were not tested for one of these yet. Pure."""
    found = {node: jobs - tested.get(node, set()) for node, jobs in excluded.items()}
    return {node: excluded[node] for node, new in found.items() if new}


def known_tests(folder: Path) -> dict[str, Set[int]]:
    """The nodes that the kept reports have results of, each with the jobs that excluded it then."""
    found: dict[str, set[int]] = {}
    for path in folder.glob(f"{_REPORTS}.json"):
        try:
            nodes = json.loads(path.read_text())["nodes"]
            for node in nodes:
                if node["checks"]:
                    found.setdefault(node["node"], set()).update(node.get("excluded_by", ()))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # of another version, or removed meanwhile
    return dict(found)


def tell_excluding_jobs(slurm: SlurmMaintenance, done: Sequence[Inspected]) -> None:
    """Tell the jobs that exclude a node that it has passed, and when its test began: in their AdminComment, where
    their launchers read it. These end the exclusion with the next requeue, if it was theirs and is older. A job that
    cannot be told keeps it."""
    passed = {
        SlurmName(node.node): int(min(result.at for result in node.results))
        for node in done
        if node.verdict == CheckOutcome.PASSED.value
    }
    try:
        excluded = slurm.excluded_nodes() if passed else {}
        for node in sorted(passed.keys() & excluded.keys()):
            for job_id in sorted(excluded[node]):
                with suppress(Refused):  # the job has ended meanwhile
                    _tell(slurm, job_id, node, passed[node])
    except CommandError as error:
        complain(f"holdfast inspect: jobs that exclude these nodes do not know of it: {error}")


def _tell(slurm: SlurmMaintenance, job_id: int, node: SlurmName, at: int) -> None:
    job = slurm.job(job_id)
    if job is None or not incidents.may_write(job.admin_comment):
        return
    entry = Incident(code=NODE_TESTED, node=node, at=at)
    there = incidents.parse(job.admin_comment)
    journal = incidents.journal_in(job.admin_comment)
    slurm.admin_comment(job, incidents.render(incidents.merge(there, (entry,)), journal))


def _wanted(candidates: Sequence[InspectedNode], named: bool) -> list[InspectedNode]:
    """Without nodes that run jobs, unless the user named them."""
    return [node for node in candidates if named or node.was != "busy"]


def _report(
    done: Sequence[Inspected], began: float, folder: Path, config: Path, *, as_one_json: bool
) -> None:
    ended = time.time()
    at = datetime.fromtimestamp(began, timezone.utc).astimezone()
    page = as_text(done, began=at, took_s=ended - began)
    report = as_json(done, began=began, ended=ended)
    name = at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / f"{name}.txt", page + "\n")
        write_atomic(folder / f"{name}.json", json.dumps(report, indent=2) + "\n")
        _, active = describe(config)
        _prune(folder, active.keep_reports)
    except OSError as error:
        complain(f"holdfast inspect: cannot save the report: {error}")
    if as_one_json:
        say_json(report)
    else:
        say(as_text(done, began=at, took_s=ended - began, width=screen_width()))


def _prune(folder: Path, keep: int) -> None:
    for suffix in ("txt", "json"):
        for old in sorted(folder.glob(f"{_REPORTS}.{suffix}"))[:-keep]:
            with suppress(OSError):
                old.unlink()


def _progress(line: str) -> None:
    complain(f"holdfast inspect: testing {line}")


def _catalogue() -> str:
    rows = [(name, row.summary, load(name).needs) for name, row in CATALOGUE.items()]
    return table([("CHECK", "WHAT", "NEEDS"), *rows], screen_width())
