"""The labels of an image, which are its manifest's annotations too."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.version import VERSION

_PREFIX = "org.opencontainers.image"


def labels(title: str, description: str) -> Mapping[str, str]:
    """As in the Containerfiles."""
    return {
        f"{_PREFIX}.title": title,
        f"{_PREFIX}.description": description,
        f"{_PREFIX}.licenses": "MIT",
        f"{_PREFIX}.version": VERSION,
    }
