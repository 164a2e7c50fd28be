"""Who gets the results of writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.errors import HoldfastError
from holdfast.vocabulary import KubeName
from k8s_bridge.model.changes import Change
from k8s_bridge.model.snapshot import KubeNode


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """What the writers report and ask, also on several threads at once."""

    known: Callable[[KubeName], KubeNode | None] = _nothing
    """The last known view of a Node."""
    seen: Callable[[KubeNode], None] = _nothing
    """A Node after a write."""
    failed: Callable[[Change, HoldfastError], None] = _nothing
    """A change that was rejected or came too late."""
    wrote: Callable[[type[Change], int], None] = _nothing
    """The kind and the number of changes written."""
