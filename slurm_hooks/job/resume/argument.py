"""The chosen checkpoint in the command line: ``{resume}``, for programs that take it as an argument.

Without a checkpoint the argument is left out, and so is the option before it. A path in a container
differs from the one outside: it follows the mounts of pyxis (``--container-mounts``) or ``--path-map``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from slurm_hooks.job.checkpoints.candidate import Checkpoint

_PLACEHOLDER = re.compile(r"\{(resume|resume_parent|resume_name|resume_step)\}")
_UNSAFE = re.compile(r"[\s;&|<>$`\"'()\\*?\[\]]")
_MOUNTS = "--container-mounts"
_IMAGE = "--container-image"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMap:
    """Paths outside → paths inside the job's container. Empty: there is no container."""

    pairs: tuple[tuple[PurePosixPath, PurePosixPath], ...] = ()

    def inside(self, path: PurePosixPath) -> PurePosixPath:
        """The path in the container; the same path where no pair contains it."""
        covering = [pair for pair in self.pairs if path.is_relative_to(pair[0])]
        if not covering:
            return path
        outside, inside = max(covering, key=lambda pair: len(pair[0].parts))
        return inside / path.relative_to(outside)

    def covers(self, path: PurePosixPath) -> bool:
        return any(path.is_relative_to(outside) for outside, _ in self.pairs)


NO_CONTAINER = PathMap()


def parse_pair(text: str) -> tuple[PurePosixPath, PurePosixPath] | None:
    """``/outside:/inside``, with or without pyxis' flags after it; None for another form."""
    outside, inside = (*text.split(":"), "")[:2]
    if not outside.startswith("/") or not (inside or outside).startswith("/"):
        return None
    return PurePosixPath(outside), PurePosixPath(inside or outside)


def mounts_in(argv: Sequence[str]) -> PathMap:
    """The mounts that the command line gives to pyxis, a plugin of srun."""
    pairs = []
    for value in _values(argv, _MOUNTS):
        pairs += [pair for text in value.split(",") if (pair := parse_pair(text))]
    return PathMap(pairs=tuple(pairs))


def starts_container(argv: Sequence[str]) -> bool:
    """True when the command line gives pyxis an image."""
    return any(_values(argv, _IMAGE))


def _values(argv: Sequence[str], option: str) -> list[str]:
    joined = [word.partition("=")[2] for word in argv if word.startswith(f"{option}=")]
    apart = [value for word, value in pairwise(argv) if word == option]
    return joined + apart


def refusal(argv: Sequence[str]) -> str:
    """Why ``{resume}`` cannot be used in this command line; empty if it can.

    Others may create files in the checkpoint folder, so no path from there goes into a shell's text.
    """
    for word in argv:
        match = _PLACEHOLDER.search(word)
        if match and _UNSAFE.search(_PLACEHOLDER.sub("", word)):
            return (
                f"{match[0]} is inside a shell's text; use $HOLDFAST_RESUME_FROM there, or make "
                f"{match[0]} an argument of its own"
            )
    if argv and _PLACEHOLDER.search(argv[0]):
        return f"{argv[0]} is the command; {{resume}} belongs to its arguments"
    return ""


def filled(argv: Sequence[str], chosen: Checkpoint | None, paths: PathMap) -> list[str]:
    """The command line for one attempt.

    >>> filled(["a", "--load", "{resume}", "x={resume_step}", "-v"], None, PathMap())
    ['a', '-v']
    """
    values = _values_of(chosen, paths)
    done: list[str] = []
    for word in argv:
        names = _PLACEHOLDER.findall(word)
        if all(values.get(name) for name in names):
            done.append(_PLACEHOLDER.sub(lambda match: values[match[1]], word))
        elif _PLACEHOLDER.fullmatch(word) and len(done) > 1 and _is_option(done[-1]):
            done.pop()
    return done


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in ("-", "--") and "=" not in word


def _values_of(chosen: Checkpoint | None, paths: PathMap) -> Mapping[str, str]:
    if chosen is None:
        return {}
    path = paths.inside(PurePosixPath(chosen.path))
    return {
        "resume": str(path),
        "resume_parent": str(path.parent),
        "resume_name": path.name,
        "resume_step": "" if chosen.step is None else str(chosen.step),
    }
