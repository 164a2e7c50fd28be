"""Documents that deploy Holdfast on nodes: for Soperator, Slinky and plain Slurm.

Each module defines what ``holdfast render`` accepts for a document; its text is in ``templates/``.
"""

from __future__ import annotations

PACKAGE = __name__
"""Where the templates of these documents are."""
