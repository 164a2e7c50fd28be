"""What a real agent process needs of a node: the simulated NVML of the unit tests, and a folder of its own."""

from tests.unit.slurm_hooks.conftest import accepted_folder, nvml, nvml_library

__all__ = ["accepted_folder", "nvml", "nvml_library"]
