"""One inspection: selects the nodes that may be tested, runs the tests, and collects the results.

At most ``at_once`` nodes are reserved at the same time, so that a schedule cannot empty the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from holdfast.drain_status import Owner, drain_status
from holdfast.errors import CommandError, HoldfastError
from holdfast.node_states import CANNOT_RUN_JOBS
from holdfast.reason import without_appended
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active import load, pairs
from slurm_hooks.active.node_reservation import NodeReservation, ReservedNodes
from slurm_hooks.active.pairs import Pair, PairAttribution, Wave
from slurm_hooks.active.report import Inspected
from slurm_hooks.active.reservation_text import Purpose
from slurm_hooks.active.result import CheckOutcome, Result, could_not_run


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedNode:
    """A node before the test. ``was``: its state. ``drained``: the reason if Holdfast drained it.
    ``skip``: why it is not tested. ``excluded_by``: jobs that exclude it.
    """

    name: SlurmName
    was: str
    drained: str = ""
    skip: str = ""
    excluded_by: tuple[int, ...] = ()


def candidate(node: SlurmNode, *, idle_only: bool) -> InspectedNode:
    """Whether the node may be tested now: it is idle, or drained by the agent and without jobs. Pure."""
    drain = drain_status(node)
    was = f"drained: {drain.reason.code}" if drain.reason and node.drained_flag else "in service"
    if node.drained_flag and drain.owner is not Owner.AGENT:
        was = f"drained by {node.reason_user or 'unknown'}"
        skip = f"not drained by Holdfast's agent: {node.reason or 'no reason'}"
        return InspectedNode(name=node.name, was=was, skip=skip)
    unusable = sorted(state.value for state in node.states & CANNOT_RUN_JOBS)
    if unusable:
        return InspectedNode(
            name=node.name, was="+".join(unusable), skip="Slurm cannot run jobs on it"
        )
    if node.busy:
        return InspectedNode(name=node.name, was="busy", skip="a job runs on it")
    if node.states & {NodeState.RESERVED, NodeState.MAINTENANCE}:
        return InspectedNode(name=node.name, was="reserved", skip="it is in a reservation")
    if node.drained_flag:
        skip = "drained, and --idle was given" if idle_only else ""
        reason = without_appended(node.reason)
        return InspectedNode(name=node.name, was=was, drained=reason, skip=skip)
    return InspectedNode(name=node.name, was="idle")


def _inspected(
    node: InspectedNode, problem: str = "", *, results: tuple[Result, ...] = (), skipped: str = ""
) -> Inspected:
    """``problem``: what remains to be done."""
    jobs = ", ".join(map(str, node.excluded_by))
    was = f"{node.was}, excluded by {jobs}" if jobs else node.was
    return Inspected(
        node=node.name,
        was=was + problem,
        results=results,
        skipped=skipped,
        excluded_by=node.excluded_by,
    )


class Inspector:
    """Runs checks on reserved nodes. ``say`` is called with one line when a test starts."""

    def __init__(
        self,
        slurm: SlurmMaintenance,
        reservation: NodeReservation,
        *,
        at_once: int,
        say: Callable[[str], None],
    ) -> None:
        self._slurm, self._reservation = slurm, reservation
        self._at_once, self._say = max(1, at_once), say

    def candidates(self, names: Sequence[SlurmName], *, idle_only: bool) -> list[InspectedNode]:
        """All nodes, or only ``names``. Raises ``CommandError``."""
        return [candidate(node, idle_only=idle_only) for node in self._slurm.nodes(names)]

    def inspect(
        self, candidates: Sequence[InspectedNode], checks: Sequence[str]
    ) -> list[Inspected]:
        """Run all checks on every node that may be tested. Results in the order of ``candidates``."""
        alone = [check for check in checks if load(check).nodes == 1]
        paired = [check for check in checks if load(check).nodes > 1]
        with ThreadPoolExecutor(max_workers=self._at_once) as pool:
            done = list(pool.map(lambda node: self._node(node, alone), candidates))
        for check in paired:
            done = self._in_pairs(done, candidates, check)
        return done

    def _node(self, node: InspectedNode, checks: Sequence[str]) -> Inspected:
        if node.skip or not checks:
            return _inspected(node, skipped=node.skip)
        self._say(f"{node.name}: {', '.join(checks)}")
        try:
            reserved = self._reservation.take(
                Purpose.INSPECT,
                [node.name],
                for_s=self._reservation.budget_s(checks),
                drained=node.drained,
            )
        except HoldfastError as error:
            return _inspected(node, skipped=str(error))
        results: list[Result] = []
        try:
            results += (self._reservation.test(reserved, check) for check in checks)
        finally:
            problem = self._restore(reserved)
        return _inspected(node, problem, results=tuple(results))

    def _restore(self, reserved: ReservedNodes) -> str:
        """Restore the nodes. Returns what remains to be done, for the report."""
        try:
            removed = self._reservation.restore(reserved.name, reserved.text)
        except CommandError as error:
            return f"; still reserved by {reserved.name}: {error}"
        return "" if removed else f"; still reserved by {reserved.name}: a job in it does not end"

    # --- pairs of nodes ------------------------------------------------------------------------

    def _in_pairs(
        self, done: Sequence[Inspected], candidates: Sequence[InspectedNode], check: str
    ) -> list[Inspected]:
        """Only nodes in service: a drained node is never undrained together with another node."""
        drained = {node.name for node in candidates if node.drained}
        nodes = [
            SlurmName(node.node) for node in done if not node.skipped and node.node not in drained
        ]
        ran: dict[Pair, Result] = {}
        first = self._waves(pairs.first_round(nodes), check, ran)
        second = self._waves(pairs.second_round(first), check, ran)
        attributions = pairs.attribute(first, second)
        after = []
        for node in done:
            attribution = attributions.get(node.node)
            if node.skipped:
                after.append(node)
                continue
            if attribution is None:
                why = "the node is drained" if node.node in drained else "no second node to test"
                judged = could_not_run(f"no pair: {why}")
                result = Result(check=check, verdict=judged.verdict, detail=judged.detail)
                result = result.on([node.node], at=time.time(), wall_s=0.0)
            else:
                result = _for_node(node.node, ran, attribution, check)
            after.append(replace(node, results=(*node.results, result)))
        return after

    def _waves(
        self, waves: Iterable[Wave], check: str, ran: dict[Pair, Result]
    ) -> dict[Pair, CheckOutcome]:
        verdicts: dict[Pair, CheckOutcome] = {}
        for wave in waves:
            with ThreadPoolExecutor(max_workers=max(1, self._at_once // 2)) as pool:
                for pair, result in pool.map(lambda pair: (pair, self._pair(pair, check)), wave):
                    ran[pair], verdicts[pair] = result, result.verdict
        return verdicts

    def _pair(self, pair: Pair, check: str) -> Result:
        self._say(f"{pair[0]} with {pair[1]}: {check}")
        names = [SlurmName(name) for name in pair]
        try:
            reserved = self._reservation.take(
                Purpose.INSPECT, names, for_s=self._reservation.budget_s([check])
            )
        except HoldfastError as error:
            result = Result(check=check, verdict=CheckOutcome.ERROR, detail=str(error))
            return result.on(pair, at=time.time(), wall_s=0.0)
        try:
            return self._reservation.test(reserved, check)
        finally:
            self._restore(reserved)


def _for_node(
    node: str, ran: dict[Pair, Result], attribution: PairAttribution, check: str
) -> Result:
    """The result of one node from both rounds, with the readings of its pairs."""
    own = [result for pair, result in ran.items() if node in pair]
    detail = f"{attribution.why}: {own[-1].detail}" if own else attribution.why
    return Result(
        check=check,
        verdict=attribution.verdict,
        detail=detail,
        nodes=tuple(dict.fromkeys(name for result in own for name in result.nodes)),
        readings=tuple(reading for result in own for reading in result.readings),
        at=min((result.at for result in own), default=0.0),
        wall_s=sum(result.wall_s for result in own),
    )


def events(done: Iterable[Inspected]) -> Iterator[Result]:
    """All results, for the history of the nodes."""
    for node in done:
        yield from node.results
