"""What a real agent process needs: the simulated NVML of the unit tests, and folders of its own."""

from tests.unit.slurm_hooks.conftest import accepted_folder, nvml, nvml_library

__all__ = ["accepted_folder", "nvml", "nvml_library"]
