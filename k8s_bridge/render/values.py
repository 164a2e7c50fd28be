"""What several documents of the bridge have in common."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.render.document import NAME, Value

PACKAGE = "k8s_bridge"
"""Its templates are in the folder ``templates``."""

NAMESPACE = Value(NAME, "holdfast", "the same as in `holdfast render rbac`")
LABEL = r"[\w./-]+=[\w.-]*"


def labels(text: str) -> Mapping[str, str]:
    """The pairs of ``NAME=VALUE,…``."""
    return dict(pair.split("=", 1) for pair in text.split(",") if pair)
