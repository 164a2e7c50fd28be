"""One inspection: which nodes may be tested now, the tests, and what came of them for each.

At most ``at_once`` nodes are kept at the same time, so that a schedule cannot empty the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from holdfast.drain_owner import Owner, standing
from holdfast.errors import CommandError, HoldfastError
from holdfast.reason import without_slurms_words
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.active import load, pairs
from slurm_hooks.active.node_reservation import Kept, NodeReservation
from slurm_hooks.active.page import Inspected
from slurm_hooks.active.pairs import Pair, Wave
from slurm_hooks.active.reservation_text import Purpose
from slurm_hooks.active.result import Result, Verdict, could_not_run

_GONE = {
    NodeState.DOWN, NodeState.FAIL, NodeState.ERROR, NodeState.NOT_RESPONDING, NodeState.POWERED_DOWN,
    NodeState.POWERING_DOWN, NodeState.POWERING_UP, NodeState.INVALID_REG, NodeState.FUTURE,
    NodeState.UNKNOWN, NodeState.REBOOT_ISSUED, NodeState.REBOOT_REQUESTED,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node as it was found. ``drained``: the reason of our drain; ``skip``: why it is not tested."""

    name: SlurmName
    was: str
    drained: str = ""
    skip: str = ""


def candidate(node: SlurmNode, *, idle_only: bool) -> Candidate:
    """Whether the node may be tested now: idle in service, or drained by the agent and empty. Pure."""
    said = standing(node)
    was = f"drained: {said.reason.code}" if said.reason and node.drained_flag else "in service"
    if node.drained_flag and said.owner is not Owner.AGENT:
        was = f"drained by {node.reason_user or 'somebody'}"
        skip = f"not ours to touch: {node.reason or 'no reason'}"
        return Candidate(name=node.name, was=was, skip=skip)
    gone = sorted(state.value for state in node.states & _GONE)
    if gone:
        return Candidate(name=node.name, was="+".join(gone), skip="Slurm cannot run a job there")
    if node.busy:
        return Candidate(name=node.name, was="busy", skip="a job runs there")
    if node.states & {NodeState.RESERVED, NodeState.MAINTENANCE}:
        return Candidate(name=node.name, was="reserved", skip="it is in a reservation")
    if node.drained_flag:
        skip = "drained, and only idle nodes were asked for" if idle_only else ""
        reason = without_slurms_words(node.reason)
        return Candidate(name=node.name, was=was, drained=reason, skip=skip)
    return Candidate(name=node.name, was="idle")


class Inspector:
    """Runs checks on nodes through ``keeper``; ``say`` gets one line for each thing begun."""

    def __init__(
        self,
        slurm: SlurmMaintenance,
        keeper: NodeReservation,
        *,
        at_once: int,
        say: Callable[[str], None],
    ) -> None:
        self._slurm, self._keeper, self._at_once, self._say = slurm, keeper, max(1, at_once), say

    def candidates(self, names: Sequence[SlurmName], *, idle_only: bool) -> list[Candidate]:
        """Of all nodes, or those named. Raises ``CommandError``."""
        return [candidate(node, idle_only=idle_only) for node in self._slurm.nodes(names)]

    def inspect(self, found: Sequence[Candidate], checks: Sequence[str]) -> list[Inspected]:
        """Every node that may be tested, with all checks, in the order of ``found``."""
        alone = [check for check in checks if load(check).nodes == 1]
        paired = [check for check in checks if load(check).nodes > 1]
        with ThreadPoolExecutor(max_workers=self._at_once) as pool:
            done = list(pool.map(lambda one: self._node(one, alone), found))
        for check in paired:
            done = self._in_pairs(done, found, check)
        return done

    def _node(self, one: Candidate, checks: Sequence[str]) -> Inspected:
        if one.skip or not checks:
            return Inspected(node=one.name, was=one.was, skipped=one.skip)
        self._say(f"{one.name}: {', '.join(checks)}")
        try:
            kept = self._keeper.take(
                Purpose.INSPECT,
                [one.name],
                for_s=self._keeper.budget_s(checks),
                drained=one.drained,
            )
        except HoldfastError as error:
            return Inspected(node=one.name, was=one.was, skipped=str(error))
        results: list[Result] = []
        try:
            results += (self._keeper.test(kept, check) for check in checks)
        finally:
            problem = self._put_back(kept)
        return Inspected(node=one.name, was=one.was + problem, results=tuple(results))

    def _put_back(self, kept: Kept) -> str:
        try:
            gone = self._keeper.restore(kept.name, kept.keep)
        except CommandError as error:
            return f"; still kept by {kept.name}: {error}"
        return "" if gone else f"; still kept by {kept.name}: a job in it does not end"

    # --- pairs of nodes ------------------------------------------------------------------------

    def _in_pairs(
        self, done: Sequence[Inspected], found: Sequence[Candidate], check: str
    ) -> list[Inspected]:
        """Only nodes in service take part: a drained one would be undrained beside a good one."""
        drained = {one.name for one in found if one.drained}
        nodes = [SlurmName(one.node) for one in done if not one.skipped and one.node not in drained]
        ran: dict[Pair, Result] = {}
        first = self._waves(pairs.first_round(nodes), check, ran)
        second = self._waves(pairs.second_round(first), check, ran)
        said = pairs.blame(first, second)
        after = []
        for one in done:
            blame = said.get(one.node)
            if one.skipped:
                after.append(one)
                continue
            if blame is None:
                why = "it is drained" if one.node in drained else "no second node to test it with"
                judged = could_not_run(f"no pair: {why}")
                result = Result(check=check, verdict=judged.verdict, detail=judged.detail)
                result = result.on([one.node], at=time.time(), wall_s=0.0)
            else:
                result = _for_node(one.node, ran, blame.verdict, blame.why, check)
            after.append(replace(one, results=(*one.results, result)))
        return after

    def _waves(
        self, waves: Iterable[Wave], check: str, ran: dict[Pair, Result]
    ) -> dict[Pair, Verdict]:
        verdicts: dict[Pair, Verdict] = {}
        for wave in waves:
            with ThreadPoolExecutor(max_workers=max(1, self._at_once // 2)) as pool:
                for pair, result in pool.map(lambda pair: (pair, self._pair(pair, check)), wave):
                    ran[pair], verdicts[pair] = result, result.verdict
        return verdicts

    def _pair(self, pair: Pair, check: str) -> Result:
        self._say(f"{pair[0]} with {pair[1]}: {check}")
        names = [SlurmName(name) for name in pair]
        try:
            kept = self._keeper.take(Purpose.INSPECT, names, for_s=self._keeper.budget_s([check]))
        except HoldfastError as error:
            result = Result(check=check, verdict=Verdict.COULD_NOT_RUN, detail=str(error))
            return result.on(pair, at=time.time(), wall_s=0.0)
        try:
            return self._keeper.test(kept, check)
        finally:
            self._put_back(kept)


def _for_node(node: str, ran: dict[Pair, Result], verdict: Verdict, why: str, check: str) -> Result:
    """What the two rounds say of one node, with the values of the pairs that it was in."""
    own = [result for pair, result in ran.items() if node in pair]
    detail = f"{why}: {own[-1].detail}" if own else why
    return Result(
        check=check,
        verdict=verdict,
        detail=detail,
        nodes=tuple(dict.fromkeys(name for result in own for name in result.nodes)),
        readings=tuple(reading for result in own for reading in result.readings),
        at=min((result.at for result in own), default=0.0),
        wall_s=sum(result.wall_s for result in own),
    )


def events(done: Iterable[Inspected]) -> Iterator[Result]:
    """What belongs in the nodes' histories."""
    for one in done:
        yield from one.results
