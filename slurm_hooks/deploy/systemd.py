"""The agent as a systemd unit, for plain Slurm."""

from __future__ import annotations

from holdfast.config.path import DEFAULT_PATH
from holdfast.render.document import NUMBER, PATH, Document, Value
from slurm_hooks.deploy import PACKAGE

UNIT = Document(
    about="the agent as a unit of systemd, for plain Slurm",
    package=PACKAGE,
    template="holdfast-agent.service.j2",
    values={
        "home": Value(PATH, "/opt/holdfast", "where Holdfast is installed"),
        "watchdog_s": Value(NUMBER, "60", "an agent that is silent for so long is restarted"),
        "config": Value(PATH, str(DEFAULT_PATH), "its configuration"),
    },
)
