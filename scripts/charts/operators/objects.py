"""All objects of an API server, to compare them, and kinds without a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.kube.local import ApiServer

from charts.chart import Object
from charts.errors import NotHeld

_OTHERS = ("events", "leases")
_COUNTED = ("resourceVersion", "generation", "managedFields", "uid", "creationTimestamp")
_OF_FLUX = "helm.toolkit.fluxcd.io/"
_OF_HELM = "sh.helm.release."
"""The begin of the names of Helm's records of its revisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind that a program needs, of which nobody here reads the content."""

    group: str
    version: str
    kind: str
    namespaced: bool = True

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s".replace("ys", "ies")

    @property
    def crd(self) -> Object:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {
            "name": self.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": anything},
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "names": {"kind": self.kind, "plural": self.plural, "singular": self.kind.lower()},
                "versions": [served],
            },
        }


def serve(server: ApiServer, *kinds: Kind) -> None:
    """Makes the kinds known and waits until the server serves them."""
    for kind in kinds:
        server.kubectl("apply", "-f", "-", stdin=json.dumps(kind.crd))
    names = [f"crd/{kind.crd['metadata']['name']}" for kind in kinds]
    server.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)


def everything(server: ApiServer) -> Mapping[str, Any]:
    """Kind, namespace and name → content of every object, without what the server, Flux and Helm count."""
    kinds = server.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    asked = ",".join(kind for kind in kinds if kind.split(".")[0] not in _OTHERS)
    items = json.loads(server.kubectl("get", asked, "--all-namespaces", "-o", "json"))["items"]
    return {
        f"{one['kind']}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}": _content(
            one
        )
        for one in items
        if not one["metadata"]["name"].startswith(_OF_HELM)
        and not one["apiVersion"].startswith(_OF_FLUX)
    }


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of the objects that were added, removed or changed."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def must_be_equal(when: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raises ``NotHeld`` with the first differences."""
    said = list(_said("", before, after))
    if said:
        raise NotHeld(f"{when}: {'; '.join(said[:12])}")


def _said(path: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _said(f"{path}.{key}".lstrip("."), before.get(key), after.get(key))
    elif before != after:
        yield f"{path} was {before!s:.200} and is {after!s:.200}"


def _content(item: Object) -> Object:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _COUNTED}
    return {
        **{key: value for key, value in item.items() if key != "status"},
        "metadata": metadata,
    }
