"""The calls to Kubernetes that the bridge makes: the protocol, its values and its errors.
client.py implements it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.errors import HoldfastError
from holdfast.vocabulary import KubeName
from k8s_bridge.model.changes import NodeEvent
from k8s_bridge.model.ownership import BridgeRecord
from k8s_bridge.model.snapshot import Condition, KubeNode


class KubeError(HoldfastError):
    """A request to the API server failed."""


class KubeUnavailable(KubeError):
    """No answer, or a temporary error. The same call may succeed later."""


class KubeFailed(KubeUnavailable):
    """The API server answered with a temporary error (429, 5xx), for this object at least."""


class KubeUnauthorized(KubeUnavailable):
    """The credentials were rejected (401): a token that has expired may be renewed meanwhile."""


class KubeRefused(KubeError):
    """The request was rejected (rights, validity). The same call will be rejected again."""


class KubeInvalid(KubeRefused):
    """The object would be invalid, or an admission policy denied it (422)."""


class KubeNotFound(KubeError):
    """The object does not exist."""


class KubeConflict(KubeError):
    """Other clients wrote the same object; read it again first."""


class KubeGone(KubeError):
    """The resource version of the watch has expired (410): list again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What to write on a Node in one atomic step; ``None`` leaves a part unchanged.

    ``taint`` is the new value of the bridge's taint, ``untaint`` removes it. ``record`` is written or,
    with ``forget``, removed.
    """

    unschedulable: bool | None = None
    taint: str | None = None
    untaint: bool = False
    record: BridgeRecord | None = None
    forget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One event of the watch.

    ``node`` is ``None`` for a bookmark; ``gone``: the Node was deleted.
    """

    node: KubeNode | None
    gone: bool
    version: str


class Requests(Protocol):
    """Requests about other objects than Nodes. Each is bounded in time and raises a ``KubeError``."""

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> dict[str, Any]:
        """One request, and its answer in JSON. A PATCH is a merge patch."""
        ...


class Watches(Requests, Protocol):
    """Requests, lists and watches of other objects than Nodes."""

    def listed(self, path: str, query: Mapping[str, str], word: str) -> dict[str, Any]:
        """One page of a list; without its items where ``word`` is in none of them."""
        ...

    def watch(self, path: str, version: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The type and the object of each event after ``version``, until the server ends the stream. A bookmark
        has only a version. Raises ``KubeGone``."""
        ...


class Kube(Protocol):
    """The calls that the bridge makes. Each is bounded in time and raises a ``KubeError``."""

    def list_nodes(self) -> tuple[list[KubeNode], str]:
        """All Nodes of the selector, and the resource version from which to watch."""
        ...

    def watch_nodes(self, version: str) -> Iterator[WatchEvent]:
        """The changes after ``version``, until the server ends the stream. Raises ``KubeGone``."""
        ...

    def node(self, name: KubeName) -> KubeNode:
        """The present Node."""
        ...

    def edit(self, seen: KubeNode, decide: Callable[[KubeNode], Edit | None]) -> KubeNode:
        """Write what ``decide`` returns for ``seen``, in one request, only if the Node still has that
        version. If it has another one, read the Node, decide and write again, a few times
        (``KubeConflict``).

        ``decide`` may return ``None``: no change. Returns the Node after the write.
        """
        ...

    def patch_status(
        self, name: KubeName, conditions: Sequence[Condition], label: str | None
    ) -> KubeNode:
        """Write these conditions and the state label (``None``: unchanged) in one request."""
        ...

    def create_events(self, node: KubeNode | None, events: Iterable[NodeEvent]) -> None:
        """Create the Events about this Node, or, with ``None``, about the cluster. One that exists is
        left unchanged.
        """
        ...
