"""Ask the supervisor to power a node off and on again (RebootProgram); run on the node itself."""

from __future__ import annotations

import sys

from testbed.inside.control import ask
from testbed.shape import INSIDE

if __name__ == "__main__":
    ask(INSIDE, do="reboot", name=sys.argv[1])
