"""``python -m holdfast``."""

from __future__ import annotations

import sys

from holdfast.cli.main import main

sys.exit(main())
