"""``python -m slurm_hooks.agent``, which the health check runs."""

from __future__ import annotations

import sys

from holdfast.cli.main import main

sys.exit(main(["agent", *sys.argv[1:]]))
