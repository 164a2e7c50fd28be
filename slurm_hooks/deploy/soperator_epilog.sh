#!/bin/sh
# Epilog of a Soperator worker: Holdfast's and Soperator's own, which cleans up after the job however the node is.
hook=/opt/holdfast/hooks/epilog
ours=0
if [ -x "$hook" ]; then
    "$hook"
    ours=$?
fi
/opt/slurm_scripts/epilog.sh
theirs=$?
[ "$ours" -eq 0 ] || exit 1
exit "$theirs"
