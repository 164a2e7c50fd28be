"""All deaths, in the order of the page."""

from __future__ import annotations

from measure.deaths import nodes, people, program
from measure.deaths.death import Death

DEATHS: tuple[Death, ...] = (*program.DEATHS, *people.DEATHS, *nodes.DEATHS)
