"""The instructions of a Containerfile as a shell script, for machines without a container engine.

All stages run on one machine: this shows that each command works, not that the last stage is complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ABOUT_THE_IMAGE = ("FROM", "LABEL", "USER", "ENTRYPOINT", "CMD")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(word, rest) of every instruction; continued lines are joined."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            yield word, rest


def script(text: str) -> str:
    """A script for sh, to be run in the folder that the image is built from.

    Raises ``ValueError`` for an instruction that is not known here.
    """
    return "\n".join(line for word, rest in instructions(text) for line in _lines(word, rest))


def _lines(word: str, rest: str) -> Iterator[str]:
    if word == "RUN":
        yield f"( {rest} )"
    elif word == "ARG":
        yield rest
    elif word == "ENV":
        yield f"export {rest}"
    elif word == "COPY":
        # What another stage made is there already.
        if not rest.startswith("--from="):
            source, target = rest.split()
            yield f"mkdir -p {target.rpartition('/')[0]} && cp {source} {target}"
    elif word not in _ABOUT_THE_IMAGE:
        raise ValueError(f"instruction {word} is not known here")
