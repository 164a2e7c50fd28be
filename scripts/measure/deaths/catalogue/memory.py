"""Deaths because memory is used up, of a GPU or of a node."""

from __future__ import annotations

from measure.deaths import surroundings
from measure.deaths.catalogue.common import HELD, HERE, RESTARTED, TWICE, prints, python
from measure.deaths.death import Death, Expect, Where

_CUDA = (
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 "
    "has a total capacity of 79.11 GiB of which 10.00 GiB is free."
)

DEATHS = (
    Death(
        name="gpu-out-of-memory",
        how="CUDA out of memory, each time",
        then=TWICE,
        every=True,
        rank=prints(_CUDA),
        expect=HELD,
    ),
    Death(
        name="host-out-of-memory",
        how="the kernel kills a task of the step, in Slurm's words, each time",
        then=TWICE,
        every=True,
        rank="[ $R = 1 ] || exec sleep 120\n"
        'say "slurmstepd: error: Detected 1 oom_kill event in StepId=$SLURM_JOB_ID.0. '
        'Some of the step tasks have been OOM Killed."\nkill -KILL $$',
        expect=HELD,
    ),
    Death(
        name="memory-error",
        how="a MemoryError of Python, each time",
        then=TWICE,
        every=True,
        rank=python(
            "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**28,) * 2); bytearray(2**30)"
        ),
        expect=HELD,
    ),
    Death(
        name="gpu-out-of-memory-late",
        how="CUDA out of memory after a checkpoint, each time at the same step",
        then="restarted once from the checkpoint, then held for its owner",
        every=True,
        rank="[ $A = 1 ] && save 5 && sleep 0.5\n" + prints(_CUDA),
        expect=Expect(
            ends=("restart", "hold"),
            state="HELD",
            charged=2,
            resumes=5,
            because="the same failure 2 times",
        ),
    ),
    Death(
        name="no-more-memory",
        how="the system gives the program no more memory (a real ENOMEM), each time",
        then=TWICE,
        every=True,
        rank=python(
            "import mmap, resource; resource.setrlimit(resource.RLIMIT_AS, (2**28,) * 2); "
            "mmap.mmap(-1, 2**30)"
        ),
        expect=HELD,
    ),
    Death(
        name="oom-kill",
        how="the kernel kills a task (really), because a process of somebody else uses the memory",
        then=HERE,
        rank="until_told\n[ $R = 1 ] || exec sleep 120\n"
        "exec python3 -c 'kept = bytes(range(256)) * 2**20'",
        act=surroundings.use_up_memory,
        where=Where.NODE,
        expect=RESTARTED,
    ),
)
