"""Deaths that concern the checkpoint from which the job resumes."""

from __future__ import annotations

from measure.deaths.catalogue.common import python
from measure.deaths.death import Death, Expect, Where

DEATHS = (
    Death(
        name="torn-checkpoint",
        how="it ends while it writes a checkpoint",
        then="restarted from the last complete one",
        rank="save 5\n[ $R = 0 ] && head -c 40 /mnt/training/deaths/good.pt >$F/step_10.pt\n"
        "sleep 0.5\nexit 1",
        expect=Expect(ends=("restart", "done"), charged=1, resumes=5),
    ),
    Death(
        name="unloadable-checkpoint",
        how="the newest checkpoint cannot be loaded (a real EOFError)",
        then="restarted from the one before",
        every=True,
        rank='case "$A:$HOLDFAST_RESUME_STEP" in\n1:*) save 5; sleep 1; save 10; sleep 0.5; exit 1;;\n'
        '*:10) exec python3 -c "import pickle; pickle.loads(bytes())";;\nesac',
        expect=Expect(
            ends=("restart", "restart", "done"),
            charged=2,
            resumes=5,
            because="the checkpoint may be bad",
        ),
    ),
    Death(
        name="poisoned-checkpoint",
        how="the loss is NaN from the newest two checkpoints on",
        then="restarted from older ones, until one is good",
        every=True,
        rank='case "$A:$HOLDFAST_RESUME_STEP" in\n'
        "1:*) save 5; sleep 1; save 10; sleep 1; save 15; sleep 0.5; exit 1;;\n"
        "*:15|*:10) say 'RuntimeError: loss is nan, stopping'; exit 1;;\nesac",
        expect=Expect(
            ends=("restart", "restart", "restart", "done"),
            charged=3,
            resumes=5,
            because="the checkpoint may be bad",
        ),
    ),
    Death(
        name="nan-on-one-node",
        how="NaN on one of two nodes, after each of two checkpoints on the same one",
        then="restarted from the newest checkpoint, then requeued without that node",
        nodes=2,
        where=Where.NODE,
        every=True,
        rank="[ $A -lt 3 ] || exit 0\nsave $((A * 5))\n[ $R = 3 ] || exec sleep 120\nsleep 1.5\n"
        "for step in 7 8; do say '[rank3]: RuntimeError: Rank 3: found NaN in local grad norm of step' "
        "$((A * 10 + step)); done\nexit 1",
        expect=Expect(
            ends=("restart", "requeue", "done"),
            charged=2,
            avoids=True,
            resumes=10,
            because="numeric error twice",
        ),
    ),
    Death(
        name="error-after-progress",
        how="a TypeError of Python at the same step, each time, after a checkpoint",
        then="restarted once from the checkpoint, then held for its owner",
        every=True,
        rank="[ $A = 1 ] && save 5 && sleep 0.5\n" + python("len(5)"),
        expect=Expect(
            ends=("restart", "hold"),
            state="HELD",
            charged=2,
            resumes=5,
            because="the same failure 2 times",
        ),
    ),
)
