"""A folder with a step in its name and ``.pt`` files without one: ``step_100/model.pt``,
``step_100/optimizer.pt``."""

from __future__ import annotations

from slurm_hooks.job.checkpoints.candidate import Candidate, Framework
from slurm_hooks.job.checkpoints.frameworks.torch_parts import faults
from slurm_hooks.job.checkpoints.listing import Listing, list_folder
from slurm_hooks.job.checkpoints.names import is_counted, is_temporary, step_in

ENDS = (".pt", ".pth", ".bin")


def _owns_folder(listing: Listing) -> bool:
    names = listing.ending(*ENDS)
    if not names or not is_counted(listing.name):
        return False
    return all(step_in(name.rpartition(".")[0])[0] is None for name in names)


def _fault(candidate: Candidate) -> str:
    listing = list_folder(candidate.path)
    unfinished = next((name for name in sorted(listing.files) if is_temporary(name)), None)
    if unfinished:
        return f"{unfinished} has a temporary name: the save did not finish"
    broken = faults(candidate.path, listing.ending(*ENDS))
    return f"incomplete: {broken}" if broken else candidate.missing


def _parts(listing: Listing) -> frozenset[str]:
    return frozenset(listing.ending(*ENDS))


FRAMEWORK = Framework(name="torch-folder", owns_folder=_owns_folder, fault=_fault, parts=_parts)
