"""Requests a power cycle of a node from the supervisor (RebootProgram); runs on the node."""

from __future__ import annotations

import sys

from testbed.inside.control import ask
from testbed.shape import INSIDE

if __name__ == "__main__":
    ask(INSIDE, do="reboot", name=sys.argv[1])
