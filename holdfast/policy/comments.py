"""When a node's comment in Slurm is ours to write, and worth it. Pure."""

from __future__ import annotations

import re

from holdfast.policy.ownership import NodeView
from holdfast.reason import Reason

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")
"""A number by itself; those in names (mlx5_3) tell parts apart."""


def may_comment(node: NodeView, text: str) -> bool:
    """Never twice the same, and never over a comment that somebody else wrote.

    Where only a count or a measured value moved on, nothing is new (law 6).
    """
    there, wanted = Reason.parse(node.comment), Reason.parse(text)
    if there is None or wanted is None:
        return node.comment != text and (not node.comment or there is not None)
    return _news_of(there) != _news_of(wanted)


def _news_of(reason: Reason) -> tuple[object, ...]:
    return reason.code, tuple(reason.pairs.items()), _NUMBER.sub("#", reason.detail)
