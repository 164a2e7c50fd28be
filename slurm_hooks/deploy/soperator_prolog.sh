#!/bin/sh
# Prolog of a Soperator worker: Holdfast's answer first, then Soperator's own checks.
#
# Holdfast answers from a file and waits for nothing. Soperator's runner asks nvidia-smi before it looks at any check:
# where the driver hangs, so does the runner, and Slurm waits for a prolog for ever.
hook=/opt/holdfast/hooks/prolog
if [ -x "$hook" ] && ! "$hook"; then
    # Slurm shows a job's owner what its prolog prints behind "print".
    echo "print holdfast: node ${SLURMD_NODENAME:-} is bad: the job goes back to the queue"
    exit 1
fi
exec /opt/slurm_scripts/prolog.sh
