"""The token of the bridge's Slurm user, which a person creates on a real cluster."""

from __future__ import annotations

from testbed.running_box import RunningBox
from testbed.shape import SLURM_TOKEN

_LIFESPAN_S = 365 * 86400


def write(box: RunningBox) -> None:
    """Writes it to ``SLURM_TOKEN`` in the box's folder, for the bridge's Secret."""
    words = ["scontrol", "token", "username=holdfast", f"lifespan={_LIFESPAN_S}"]
    token = box.run(words).stdout.partition("=")[2].strip()
    path = box.folder / SLURM_TOKEN
    path.touch(mode=0o600)
    path.write_text(token + "\n")
