"""Which pairs of nodes to test, and which node a failing pair accuses. Pure.

Round one: everybody once, the odd one out with a node of another pair. Round two: everybody of a
failed pair with a node that passed, each with another one as far as they go. Who fails again is bad;
whose partner alone fails again is cleared. Without any node that passed nothing can be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_hooks.active.result import Verdict

Pair = tuple[str, str]
Wave = tuple[Pair, ...]
"""Pairs without a common node: they can run at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What the two rounds say of one node."""

    verdict: Verdict
    why: str


def first_round(nodes: Sequence[str]) -> list[Wave]:
    """Every node in at least one pair; empty for fewer than two nodes."""
    if len(nodes) < 2:
        return []
    pairs = tuple(zip(nodes[0::2], nodes[1::2], strict=False))
    return [pairs] if len(nodes) % 2 == 0 else [pairs, ((nodes[-1], nodes[0]),)]


def second_round(first: Mapping[Pair, Verdict]) -> list[Wave]:
    """Each node of a failed pair with one that passed. Empty: nothing failed, or nobody passed."""
    good, suspects = _good(first), _suspects(first)
    if not good:
        return []
    waves = []
    for begin in range(0, len(suspects), len(good)):
        some = suspects[begin : begin + len(good)]
        waves.append(tuple(zip(some, good, strict=False)))
    return waves


def blame(first: Mapping[Pair, Verdict], second: Mapping[Pair, Verdict]) -> dict[str, Blame]:
    """The word on every node that was tested. In a pair of ``second`` the suspect comes first."""
    passed, suspects = _passed(first), _suspects(first)
    said = {}
    for node in dict.fromkeys(node for pair in first for node in pair):
        if node in suspects:
            said[node] = _of_suspect(node, first, second)
        elif node in passed:
            said[node] = Blame(verdict=Verdict.PASSED, why="passed with another node")
        else:
            why = "the pair could not run"
            said[node] = Blame(verdict=Verdict.COULD_NOT_RUN, why=why)
    return said


def _of_suspect(node: str, first: Mapping[Pair, Verdict], second: Mapping[Pair, Verdict]) -> Blame:
    partner = next(
        other
        for pair, verdict in first.items()
        if node in pair and verdict is Verdict.FAILED
        for other in pair
        if other != node
    )
    again = next(((pair, verdict) for pair, verdict in second.items() if pair[0] == node), None)
    if again is None:
        why = f"failed with {partner}; no node passed that could tell the two apart"
        return Blame(verdict=Verdict.FAILED, why=why)
    (_, witness), verdict = again
    if verdict is Verdict.FAILED:
        return Blame(verdict=verdict, why=f"failed with {partner} and again with {witness}")
    if verdict is Verdict.COULD_NOT_RUN:
        return Blame(verdict=verdict, why=f"failed with {partner}; could not run with {witness}")
    return Blame(verdict=verdict, why=f"failed with {partner}, passed with {witness}")


def _good(first: Mapping[Pair, Verdict]) -> list[str]:
    """Nodes that passed and never failed."""
    failed = set(_failed(first))
    return [node for node in _passed(first) if node not in failed]


def _suspects(first: Mapping[Pair, Verdict]) -> list[str]:
    """Nodes of failed pairs that passed with nobody; who passed with somebody is cleared already."""
    passed = _passed(first)
    return [node for node in dict.fromkeys(_failed(first)) if node not in passed]


def _passed(first: Mapping[Pair, Verdict]) -> list[str]:
    found = (n for pair, verdict in first.items() if verdict is Verdict.PASSED for n in pair)
    return list(dict.fromkeys(found))


def _failed(first: Mapping[Pair, Verdict]) -> list[str]:
    return [n for pair, verdict in first.items() if verdict is Verdict.FAILED for n in pair]
