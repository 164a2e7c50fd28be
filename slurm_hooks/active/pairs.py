"""Which pairs of nodes to test, and to which node a failure is attributed. Pure.

Round one tests every node once; with an odd number, the last node runs with a node of another pair.
Round two tests each node of a failed pair with a node that passed, a different one where possible.
If no node passed, it runs with another node that failed. A node that fails again is faulty; a node
that passes is cleared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_hooks.active.result import CheckOutcome

Pair = tuple[str, str]
Wave = tuple[Pair, ...]
"""Pairs without a common node, which can run at the same time."""

_FAILED = CheckOutcome.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAttribution:
    """The verdict on one node after both rounds, and why."""

    verdict: CheckOutcome
    why: str


def first_round(nodes: Sequence[str]) -> list[Wave]:
    """Waves with every node in at least one pair; empty for fewer than two nodes."""
    if len(nodes) < 2:
        return []
    pairs = tuple(zip(nodes[0::2], nodes[1::2], strict=False))
    return [pairs] if len(nodes) % 2 == 0 else [pairs, ((nodes[-1], nodes[0]),)]


def second_round(first: Mapping[Pair, CheckOutcome]) -> list[Wave]:
    """Each node of a failed pair with one that passed, else with one that it has not run with."""
    good, suspects = _good(first), _suspects(first)
    if not good:
        return _crossed(first, suspects)
    waves = []
    for begin in range(0, len(suspects), len(good)):
        suspected = suspects[begin : begin + len(good)]
        waves.append(tuple(zip(suspected, good, strict=False)))
    return waves


def _crossed(first: Mapping[Pair, CheckOutcome], suspects: Sequence[str]) -> list[Wave]:
    """Pairs of suspects: a pair that passes clears both nodes."""
    met = {frozenset(pair) for pair in first}
    left, wave = list(suspects), []
    while left:
        node = left.pop(0)
        other = next((peer for peer in left if frozenset((node, peer)) not in met), None)
        if other is not None:
            left.remove(other)
            wave.append((node, other))
    return [tuple(wave)] if wave else []


def attribute(
    first: Mapping[Pair, CheckOutcome], second: Mapping[Pair, CheckOutcome]
) -> dict[str, PairAttribution]:
    """Node → verdict, for every node that was tested."""
    passed, suspects = _passed(first), _suspects(first)
    found = {}
    for node in dict.fromkeys(node for pair in first for node in pair):
        if node in suspects:
            found[node] = _of_suspect(node, first, second)
        elif node in passed:
            found[node] = PairAttribution(
                verdict=CheckOutcome.PASSED, why="passed with another node"
            )
        else:
            why = "the pair could not run"
            found[node] = PairAttribution(verdict=CheckOutcome.ERROR, why=why)
    return found


def _of_suspect(
    node: str, first: Mapping[Pair, CheckOutcome], second: Mapping[Pair, CheckOutcome]
) -> PairAttribution:
    partners = [_other(node, p) for p, verdict in first.items() if node in p and verdict is _FAILED]
    before = f"failed with {' and '.join(partners)}"
    again = {_other(node, pair): verdict for pair, verdict in second.items() if node in pair}
    by = {
        verdict: [n for n, result in again.items() if result is verdict] for verdict in CheckOutcome
    }
    if by[CheckOutcome.PASSED]:
        return PairAttribution(
            verdict=CheckOutcome.PASSED, why=f"{before}, passed with {by[CheckOutcome.PASSED][0]}"
        )
    if by[_FAILED]:
        return PairAttribution(verdict=_FAILED, why=f"{before} and again with {by[_FAILED][0]}")
    if by[CheckOutcome.ERROR]:
        other = by[CheckOutcome.ERROR][0]
        return PairAttribution(
            verdict=CheckOutcome.ERROR, why=f"{before}; could not run with {other}"
        )
    if len(partners) > 1:
        return PairAttribution(verdict=_FAILED, why=before)
    return PairAttribution(
        verdict=_FAILED, why=f"{before}; no third node was available to find the faulty one"
    )


def _other(node: str, pair: Pair) -> str:
    return pair[1] if pair[0] == node else pair[0]


def _good(first: Mapping[Pair, CheckOutcome]) -> list[str]:
    """Nodes that passed and never failed."""
    failed = set(_failed(first))
    return [node for node in _passed(first) if node not in failed]


def _suspects(first: Mapping[Pair, CheckOutcome]) -> list[str]:
    """Nodes of failed pairs that passed in no pair; a node that passed once is cleared."""
    passed = _passed(first)
    return [node for node in dict.fromkeys(_failed(first)) if node not in passed]


def _passed(first: Mapping[Pair, CheckOutcome]) -> list[str]:
    found = (n for pair, verdict in first.items() if verdict is CheckOutcome.PASSED for n in pair)
    return list(dict.fromkeys(found))


def _failed(first: Mapping[Pair, CheckOutcome]) -> list[str]:
    return [n for pair, verdict in first.items() if verdict is CheckOutcome.FAILED for n in pair]
