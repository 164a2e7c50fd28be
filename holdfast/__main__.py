"""``python -m holdfast``."""

from __future__ import annotations

import sys

from holdfast.commands import main

sys.exit(main())
