"""Deaths because memory is used up, of a GPU or of a node."""

from __future__ import annotations

from measure.deaths import disturbances
from measure.deaths.catalogue.common import (
    ALL_UP,
    AT_ONCE,
    HELD,
    HELD_AT_ONCE,
    HERE,
    RESTARTED,
    TWICE,
    prints,
    python,
)
from measure.deaths.death import Death, Expect, Where

_CUDA = (
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 "
    "has a total capacity of 79.11 GiB of which 10.00 GiB is free."
)

_OOM_KILL = (
    'say "slurmstepd: error: Detected 1 oom_kill event in StepId=$SLURM_JOB_ID.0. '
    'Some of the step tasks have been OOM Killed."\nkill -KILL $$'
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
        rank="[ $R = 1 ] || exec sleep 120\n" + _OOM_KILL,
        expect=HELD,
    ),
    Death(
        name="host-out-of-memory-there",
        how="the same on one of two nodes, each time on the same one",
        then="restarted on the same nodes, then requeued without that node",
        nodes=2,
        where=Where.NODE,
        every=True,
        rank="[ $A -lt 3 ] || exit 0\n[ $R = 3 ] || exec sleep 120\n" + _OOM_KILL,
        expect=Expect(
            ends=("restart", "requeue", "done"),
            charged=2,
            avoids=True,
            because="out of memory twice",
        ),
    ),
    Death(
        name="gpu-memory-of-others",
        how="CUDA out of memory, because a process that is not the job's uses the GPU's memory",
        then="requeued without that node",
        rank='until_told\n[ $R = 1 ] || exec sleep 120\nread -r other <"$F/go"\n'
        'say "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 '
        "has a total capacity of 79.11 GiB of which 10.00 MiB is free. Process $other has 60.00 GiB "
        'memory in use. Of the allocated memory 0 bytes is allocated by PyTorch."\nexit 1',
        act=disturbances.use_gpu_memory,
        where=Where.ALONE,
        on_first=True,
        options=(),
        expect=Expect(ends=("requeue", "done"), charged=1, avoids=True, because="its output"),
    ),
    Death(
        name="memory-error",
        how="a MemoryError of Python on all ranks",
        then=HELD_AT_ONCE,
        every=True,
        rank=ALL_UP
        + python(
            "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**28,) * 2); bytearray(2**30)"
        ),
        expect=AT_ONCE,
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
        how="the system gives the program no more memory (a real ENOMEM), on all ranks",
        then=HELD_AT_ONCE,
        every=True,
        rank=ALL_UP
        + python(
            "import mmap, resource; resource.setrlimit(resource.RLIMIT_AS, (2**28,) * 2); "
            "mmap.mmap(-1, 2**30)"
        ),
        expect=AT_ONCE,
    ),
    Death(
        name="oom-kill",
        how="the kernel kills a task (really), because a process of somebody else uses the memory",
        then=HERE,
        rank="until_told\n[ $R = 1 ] || exec sleep 120\n"
        "exec python3 -c 'kept = bytes(range(256)) * 2**20'",
        act=disturbances.use_up_memory,
        where=Where.NODE,
        expect=RESTARTED,
    ),
)
