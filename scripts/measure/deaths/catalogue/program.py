"""Deaths that the job's own program causes: exit codes, signals, and errors that it prints."""

from __future__ import annotations

from measure.deaths import disturbances
from measure.deaths.catalogue.common import (
    AFTER_15_S,
    ALL_UP,
    AT_ONCE,
    ECC_OF_RANK_3,
    FAILED,
    HELD,
    HELD_AT_ONCE,
    HERE,
    OUTAGE,
    RESTARTED,
    TWICE,
    prints,
    python,
)
from measure.deaths.death import Death, Expect, Where

_BY_A_PERSON = Expect(ends=("others",), state="FAILED")


def _signal(name: str, what: str, expect: Expect = RESTARTED, then: str = HERE) -> Death:
    return Death(
        name=f"signal-{name.lower()}",
        how=f"a task ends by SIG{name}{what}",
        then=then,
        rank=f"[ $R = 1 ] && kill -{name} $$; exec sleep 120",
        expect=expect,
    )


_EXITS = (
    Death(
        name="exit-1",
        how="exit code 1 without a message",
        then=HERE,
        rank="exit 1",
        expect=RESTARTED,
    ),
    Death(
        name="exit-1-always",
        how="exit code 1 without a message, each time",
        then="restarted after 0 and 5 s, then held",
        rank="exit 1",
        every=True,
        expect=Expect(
            ends=("restart", "restart", "hold"),
            state="HELD",
            charged=3,
            because="the same failure 3 times",
        ),
    ),
    Death(
        name="exit-93",
        how="exit code 93: the program requests no other attempt",
        then="the job fails",
        rank="exit 93",
        expect=Expect(ends=("fail",), state="FAILED", charged=1),
    ),
    Death(
        name="exit-no-requeue",
        how="exit code 1 in a job of sbatch --no-requeue",
        then="the job fails",
        rank="exit 1",
        options=("--no-requeue",),
        expect=Expect(ends=("fail",), state="FAILED", charged=1, because="--no-requeue"),
    ),
    Death(
        name="exit-after-progress",
        how="exit code 1 three times, each after a newer checkpoint",
        then="restarted each time from the newest: never held",
        every=True,
        rank="[ $A -gt 3 ] && exit 0\nsave $((A * 5))\nsleep 0.5\nexit 1",
        expect=Expect(ends=("restart", "restart", "restart", "done"), charged=3, resumes=15),
    ),
    _signal("SEGV", ": a segmentation fault"),
    _signal("BUS", ": a bus error"),
    _signal("ILL", ": an illegal instruction"),
    _signal("FPE", ": a division by zero"),
    _signal("ABRT", ": an assertion of a C library"),
    _signal("KILL", ", as by the kernel"),
    _signal("TERM", " that it sent itself"),
    _signal("INT", ": Ctrl-C", _BY_A_PERSON, "the job ends: a person ended it"),
    _signal("USR1", " that it does not handle", _BY_A_PERSON, "the job ends: a person ended it"),
)

_ERRORS = (
    Death(
        name="type-error",
        how="a TypeError of Python on all ranks",
        then=HELD_AT_ONCE,
        every=True,
        rank=ALL_UP + python("len(5)"),
        expect=AT_ONCE,
    ),
    Death(
        name="type-error-of-one",
        how="a TypeError of Python on one rank, each time",
        then=TWICE,
        every=True,
        rank="[ $R = 1 ] || exec sleep 120\n" + python("len(5)"),
        expect=HELD,
    ),
    Death(
        name="permission-denied",
        how="a file that the user may not read, on all ranks",
        then=HELD_AT_ONCE,
        every=True,
        rank=ALL_UP + python('open("/etc/shadow")'),
        expect=AT_ONCE,
    ),
    Death(
        name="no-such-program",
        how="python3 FILE without such a file",
        then=HELD_AT_ONCE,
        every=True,
        rank=ALL_UP + "exec python3 /mnt/training/no-such-program.py",
        expect=AT_ONCE,
    ),
    Death(
        name="file-not-found",
        how="a FileNotFoundError of Python",
        then=HERE,
        rank=python('open("/mnt/training/no-such-file")'),
        expect=RESTARTED,
    ),
    Death(
        name="import-error",
        how="a module that is not installed",
        then="the job fails at once",
        every=True,
        rank=python("import no_such_module"),
        expect=FAILED,
    ),
    Death(
        name="syntax-error",
        how="a syntax error of Python",
        then="the job fails at once",
        every=True,
        rank=python("def"),
        expect=FAILED,
    ),
    Death(
        name="data-loader",
        how="a worker of the DataLoader is killed",
        then=HERE,
        rank=prints("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed."),
        expect=RESTARTED,
    ),
    Death(
        name="too-many-files",
        how="too many open files (the real limit of the process)",
        then=HERE,
        rank=python(
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16,) * 2); "
            'kept = [open("/dev/null") for _ in range(20)]'
        ),
        expect=RESTARTED,
    ),
)

_OUTAGES = (
    Death(
        name="port-in-use",
        how="the rendezvous port is taken (EADDRINUSE, really)",
        then=AFTER_15_S,
        rank=python(
            'import socket; one, two = socket.socket(), socket.socket(); one.bind(("", 0)); '
            "one.listen(); two.bind(one.getsockname())"
        ),
        expect=OUTAGE,
    ),
    Death(
        name="hub-429",
        how="a hub answers HTTP 429",
        then=AFTER_15_S,
        rank=prints(
            "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: "
            "https://hub.example/api/models"
        ),
        expect=OUTAGE,
    ),
    Death(
        name="no-space",
        how="no space left on the device (a real ENOSPC)",
        then=AFTER_15_S,
        rank=python('stream = open("/dev/full", "w"); stream.write("x"); stream.flush()'),
        expect=OUTAGE,
    ),
    Death(
        name="quota",
        how="the user's disk quota is used up (EDQUOT)",
        then=AFTER_15_S,
        rank=python("import errno, os; raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))"),
        expect=OUTAGE,
    ),
    Death(
        name="io-error",
        how="a file system answers with EIO (a real one)",
        then=AFTER_15_S,
        rank=python('open("/proc/self/mem", "rb").read(1)'),
        expect=OUTAGE,
    ),
    Death(
        name="stale-handle",
        how="a network file system answers with ESTALE",
        then=AFTER_15_S,
        rank=python("import errno, os; raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))"),
        expect=OUTAGE,
    ),
)

_SCRIPTS = (
    Death(
        name="second-command",
        how="the second of two holdfast run in a script is requeued",
        then="the first one, which has finished, is not run again",
        nodes=2,
        where=Where.NODE,
        before="holdfast run --checkpoints FOLDER -- sh -c 'echo ran >>FOLDER/first'",
        every=True,
        rank='[ -z "$SLURM_RESTART_COUNT" ] || exit 0\n' + ECC_OF_RANK_3,
        expect=Expect(ends=("done", "requeue", "done"), charged=1, avoids=True),
    ),
    Death(
        name="array-task",
        how="a task of a job array fails",
        then=HERE,
        rank="exit 1",
        options=("--requeue", "--array=7"),
        expect=RESTARTED,
    ),
    Death(
        name="array-shared",
        how="the tasks of a job array start at the same time with one checkpoint folder",
        then="one of them runs; the other one, of this row, ends before its first step",
        before="[ $SLURM_ARRAY_TASK_ID = 0 ] || sleep 2",
        every=True,
        rank="save 5\nuntil_told\nexit 0",
        options=("--requeue", "--array=0-1"),
        act=disturbances.wait_for_one_of_two,
        expect=Expect(ends=("fail",), state="FAILED", because="is running with"),
    ),
)

DEATHS = (*_EXITS, *_ERRORS, *_OUTAGES, *_SCRIPTS)
