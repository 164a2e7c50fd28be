"""``holdfast status``: the cluster on one screen.

The sources are Slurm, the histories of the nodes, and the bridge's plan. If one of them cannot be read
here, the others are shown.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from holdfast.adapters.command import complete
from holdfast.cli import site_config
from holdfast.cli.commands.nodes import Row, as_json, history, since, summary
from holdfast.cli.commands.status.text import page
from holdfast.cli.console import clear_screen, complain, say, say_json, screen_width
from holdfast.cli.site_config import SiteConfig
from holdfast.config.sections import schema_of
from holdfast.drain_status import Owner, drain_status
from holdfast.errors import CommandError
from holdfast.history.kill_switches import by_name
from holdfast.node_states import NOT_DEFINED
from holdfast.own_program import own_program
from holdfast.policy import budget
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import QueuedJob

EXAMPLE = """\
examples:
  holdfast status
  holdfast status --watch
  holdfast status --json

The lemons and the kill switches of other nodes are known where paths.history is shared. The state of the
bridge is shown where the command can reach Kubernetes: it works if no changes are pending.

exit status: 0 shown, 1 Slurm does not answer, 2 usage error, or the configuration is invalid (the
defaults are used)
"""

_BRIDGE_S = 15.0
_SLOW_S = 30.0
"""With ``--watch``: between two looks at histories and bridge. Each of them starts a process."""
_HELD = "JobHeld"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """What does not change within seconds. ``pending``: changes that the bridge has to make; None: unknown."""

    rows: Sequence[dict[str, Any]] = ()
    history_problem: str = ""
    pending: int | None = None
    bridge_problem: str = ""
    read_at: float = field(default=0.0, compare=False)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast status",
        description="Show the cluster on one screen: nodes, jobs, budget, kill switches, bridge.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--watch", action="store_true", help="refresh the screen until Ctrl-C")
    parser.add_argument(
        "--interval", type=float, default=5.0, metavar="SECONDS", help="with --watch (default: 5)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: Sequence[str]) -> int:
    """The command."""
    arguments = parser().parse_args(argv)
    found = site_config.load()
    slurm = found.slurm()
    with ThreadPoolExecutor(max_workers=2) as pool:
        slow = read_slow(pool)
        status = _show(found, slurm, slow, as_one_json=arguments.json)
        while arguments.watch:
            time.sleep(max(0.5, arguments.interval))
            if time.monotonic() - slow.read_at > _SLOW_S:
                slow = read_slow(pool)
            clear_screen()
            status = _show(found, slurm, slow, as_one_json=arguments.json)
            sys.stdout.flush()
    return found.complain("status") or status


def _show(found: SiteConfig, slurm: SlurmCli, slow: Slow, *, as_one_json: bool) -> int:
    rows, jobs, silent = read_slurm(slurm)
    out = [row for row in rows or () if row[1].out_of_service]
    document = report(found, rows, jobs, slow, silent)
    if as_one_json:
        say_json({**document, "out_of_service": [as_json(*row) for row in out]})
    else:
        say(page(document, out, screen_width()))
    if silent:
        complain(f"holdfast status: Slurm does not answer: {silent}")
    return 1 if silent else 0


def read_slurm(slurm: SlurmCli) -> tuple[list[Row] | None, list[QueuedJob] | None, str]:
    """Nodes and jobs, ``None`` for what was not read, and why slurmctld does not answer."""
    rows = None
    try:
        rows = [(node, drain_status(node)) for node in slurm.nodes()]
        return rows, slurm.queue(), ""
    except CommandError as error:
        return rows, None, str(error)


def read_slow(pool: ThreadPoolExecutor) -> Slow:
    """Histories and the bridge's plan, each from a process that may take its time."""
    past, planned = pool.submit(history), pool.submit(bridge_plan)
    rows, problem = past.result()
    pending, why = planned.result()
    return Slow(
        rows=rows,
        history_problem=problem,
        pending=pending,
        bridge_problem=why,
        read_at=time.monotonic(),
    )


def bridge_plan() -> tuple[int | None, str]:
    """How many changes the bridge has to make, and why that is not known here."""
    argv = own_program("holdfast", "bridge", "--plan", "--json")
    try:
        done = complete(argv, timeout_s=_BRIDGE_S)
        return sum(not row.get("blocked_by_kill_switch") for row in json.loads(done.out)), ""
    except CommandError as error:
        return None, error.problem
    except (ValueError, TypeError, AttributeError):
        lines = done.err.strip().splitlines() or ["no output"]
        return None, lines[-1].removeprefix("holdfast bridge: ")


def report(
    found: SiteConfig,
    rows: Sequence[Row] | None,
    jobs: Sequence[QueuedJob] | None,
    slow: Slow,
    silent: str,
) -> dict[str, Any]:
    """The state of the cluster as JSON. Times in epoch seconds; None: Slurm did not tell."""
    now = datetime.now(timezone.utc)
    switches = {row["name"]: row.get("kill_switches") or [] for row in slow.rows}
    charged = None if rows is None else _budget(found, rows)  # notes the problems of its section
    problem = found.without_repetition(slow.bridge_problem)
    bridge = sum(status.owner is Owner.BRIDGE and status.out_of_service for _, status in rows or ())
    return {
        "cluster": found.cluster.cluster,
        "at": int(now.timestamp()),
        "time": since(now),
        "slurm_problem": silent,
        "summary": None if rows is None else summary(rows),
        "budget": charged,
        "jobs": None if jobs is None else _jobs(jobs),
        "lemons": {
            rating: [str(row["name"]) for row in slow.rows if row.get("rating") == rating]
            for rating in ("lemon", "watch")
        },
        "history_problem": slow.history_problem,
        "kill_switches": {"this_host": found.kill_switches(), "nodes": by_name(switches)},
        "bridge": {"drained": bridge, "pending": slow.pending, "problem": problem},
    }


def _budget(found: SiteConfig, rows: Sequence[Row]) -> dict[str, int] | None:
    """How much of ``node.budget`` is used; None where the node part is not installed."""
    try:
        limits = found.section("node", schema_of("node")).budget
    except ImportError:
        return None
    nodes = [node for node, _ in rows if not node.states & NOT_DEFINED]
    return {
        "used": sum(map(budget.is_charged, nodes)),
        "allowed": budget.allowed(limits, len(nodes)),
        "by_users": sum(map(budget.is_by_users, nodes)),
        "allowed_by_users": budget.allowed_by_users(limits, len(nodes)),
    }


def _jobs(jobs: Sequence[QueuedJob]) -> dict[str, Any]:
    states = Counter(job.state.lower() for job in jobs)
    requeued = [job for job in jobs if job.restarts]
    return {
        "states": dict(states.most_common()),
        "held": sum(job.state_reason.startswith(_HELD) for job in jobs),
        "requeued": [asdict(job) for job in sorted(requeued, key=lambda job: -job.restarts)],
    }
