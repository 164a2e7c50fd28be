"""What the bridge asks of Kubernetes: the protocol, its values and its errors (kube.py implements
it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.vocabulary import KubeName
from k8s_bridge.ownership import Record
from k8s_bridge.plan import Announcement
from k8s_bridge.snapshot import Condition, KubeNode


class KubeError(HoldfastError):
    """The API server did not do what it was asked."""


class KubeUnavailable(KubeError):
    """No answer, or not now. The same call may succeed later."""


class KubeRefused(KubeError):
    """The answer was no (rights, validity). The same call will be refused again."""


class KubeInvalid(KubeRefused):
    """The object would not be valid, or an admission policy denies it; of a JSON Patch also: a test
    in it failed."""


class KubeNotFound(KubeError):
    """There is no such object (any more)."""


class KubeConflict(KubeError):
    """Others kept writing the same object; look again first."""


class KubeGone(KubeError):
    """The watch's place in history is gone: list again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What to write on a Node in one atomic step; ``None`` leaves a part as it is.

    ``taint`` is our taint's new value, ``untaint`` removes it. ``record`` is written or, with
    ``forget``, dropped.
    """

    unschedulable: bool | None = None
    taint: str | None = None
    untaint: bool = False
    record: Record | None = None
    forget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One message of the watch.

    ``node`` is ``None`` for a bookmark; ``gone``: the Node was deleted.
    """

    node: KubeNode | None
    gone: bool
    version: str


class Kube(Protocol):
    """The calls that the bridge makes. Each is bounded in time and raises a ``KubeError``."""

    def list_nodes(self) -> tuple[list[KubeNode], str]:
        """All Nodes of the selector, and the version from which to watch."""
        ...

    def watch_nodes(self, version: str) -> Iterator[Sighting]:
        """What happens after ``version``, until the server ends the stream. Raises ``KubeGone``."""
        ...

    def node(self, name: KubeName) -> KubeNode:
        """The Node as it is now."""
        ...

    def edit(self, name: KubeName, decide: Callable[[KubeNode], Edit | None]) -> KubeNode:
        """Read, decide, write only if nothing changed in between, else again a few times
        (``KubeConflict``).

        ``decide`` may answer ``None``: leave it. The answer is the Node after the write.
        """
        ...

    def patch_conditions(self, name: KubeName, conditions: Sequence[Condition]) -> KubeNode: ...

    def patch_label(self, name: KubeName, value: str) -> KubeNode: ...

    def announce(self, node: KubeNode, announcements: Iterable[Announcement]) -> None:
        """Create the Events. One that exists already is left as it is."""
        ...
