"""Has the bridge's account the rights that it needs? Asked at each start of the loop.

Without this question a missing verb shows as a refusal of each write, or as a watch that never answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from holdfast.adapters.log import Log
from holdfast.errors import UsageError
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.api import KubeError, KubeUnauthorized

log = Log("bridge")


class Right(NamedTuple):
    """One verb on one resource, as in a Role."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        name = f"{name}.{self.group}" if self.group else name
        return f"{self.verb} {name}" + (f" in {self.namespace}" if self.namespace else "")


class Reviews(Protocol):
    """What this module asks the API server."""

    def may(self, right: Right) -> bool:
        """Has this account the right? Raises ``KubeError``."""
        ...


def needed(policy: BridgeConfig) -> tuple[Right, ...]:
    """Every right that the bridge uses with this configuration."""
    nodes = [Right(verb, "nodes") for verb in ("get", "list", "watch", "patch")]
    events = [Right("create", "events", "events.k8s.io", "", "default")] if policy.events else []
    return (*nodes, Right("patch", "nodes", "", "status"), *events)


def require(kube: Reviews, policy: BridgeConfig, where: str) -> None:
    """As ``require_all``, for the rights of ``holdfast render rbac``."""
    require_all(kube, needed(policy), where, "rbac")


def require_all(kube: Reviews, rights: Iterable[Right], where: str, document: str) -> None:
    """Raises ``UsageError``, with one line, if a right is missing or the credentials are rejected.

    ``where``: the origin of the credentials, ``document``: what ``holdfast render`` prints to give the rights,
    both for the message. An API server that does not answer is no reason not to start: the bridge waits for it.
    """
    try:
        missing = [right for right in rights if not kube.may(right)]
    except KubeUnauthorized as error:
        raise UsageError(
            f"{where}: the API server rejects these credentials: {error}; use a valid token or "
            "certificate (holdfast render rbac makes the account)"
        ) from None
    except KubeError as error:
        log.warning("the bridge's rights could not be checked", why=error)
        return
    if missing:
        raise UsageError(
            f"{where}: this account may not {', '.join(map(str, missing))}; add the rights: "
            f"holdfast render {document} | kubectl apply -f -"
        )
