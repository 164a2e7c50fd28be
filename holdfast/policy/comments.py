"""May Holdfast write this node's comment in Slurm, and does it change anything? Pure."""

from __future__ import annotations

import re

from holdfast.policy.ownership import NodeView
from holdfast.reason import Reason

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")
"""A number that stands alone; a number in a name (mlx5_3) identifies a part."""


def may_comment(node: NodeView, text: str) -> bool:
    """Never the same text twice, and never over a comment that somebody else wrote.

    A comment in which only a count or a measured value changed is the same (rule 6).
    """
    current, wanted = Reason.parse(node.comment), Reason.parse(text)
    if current is None or wanted is None:
        return node.comment != text and (not node.comment or current is not None)
    return _without_numbers(current) != _without_numbers(wanted)


def _without_numbers(reason: Reason) -> tuple[object, ...]:
    return reason.code, tuple(reason.pairs.items()), _NUMBER.sub("#", reason.detail)
