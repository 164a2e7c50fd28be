"""What the agent writes down for good: ``Recorder.note(event)``."""

from slurm_hooks.history.recorder import Recorder

__all__ = ["Recorder"]
