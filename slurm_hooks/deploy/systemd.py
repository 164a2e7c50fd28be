"""The agent as a unit of systemd, for plain Slurm."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.config.location import DEFAULT_PATH
from holdfast.document import NUMBER, PATH, Document, Value, filled
from slurm_hooks.deploy import source


def _unit(values: Mapping[str, str]) -> str:
    return filled(source("holdfast-agent.service.in"), values)


UNIT = Document(
    about="the agent as a unit of systemd, for plain Slurm",
    make=_unit,
    values={
        "home": Value(PATH, "/opt/holdfast", "where Holdfast is installed"),
        "watchdog_s": Value(NUMBER, "60", "an agent that is silent so long is started again"),
        "config": Value(PATH, str(DEFAULT_PATH), "its configuration"),
    },
)
