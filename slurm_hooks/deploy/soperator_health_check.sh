#!/bin/sh
# Health check of a Soperator worker: brings Holdfast into this container, sees that its agent runs, then hands over to
# Soperator's own checks. Holdfast's part starts no process while all is well, and always succeeds: Slurm keeps a node
# from registering as long as its health check fails.
home=/opt/holdfast
scripts=/opt/slurm_scripts
version='{{ version }}'

# The jail, where Holdfast is installed once for all, lies on a network file system: only the installer touches it, in
# a session of its own, and nobody waits for it.
have=''
[ -r "$home/.brought" ] && read -r have <"$home/.brought"
if [ "$have" != "$version" ] && { [ -L "$home" ] || [ ! -e "$home" ]; }; then
    setsid -f timeout -k 5 120 "$scripts/holdfast_install.sh" "$version" </dev/null >/dev/null 2>&1
fi

# Kill switches for the whole cluster: an entry holdfast.off.CHECK (or .all) of slurmScripts.extra becomes the file
# /etc/holdfast/off/CHECK here, and goes with it. Those that somebody made by hand hold no such word and stay.
for switch in "$scripts"/holdfast.off.*; do
    [ -e "$switch" ] && echo slurmScripts 2>/dev/null >"/etc/holdfast/off/${switch##*/holdfast.off.}"
done
for switch in /etc/holdfast/off/*; do
    made=''
    [ -f "$switch" ] && read -r made 2>/dev/null <"$switch"
    [ "$made" = slurmScripts ] && [ ! -e "$scripts/holdfast.off.${switch##*/}" ] && rm -f "$switch"
done

[ -x "$home/hooks/health_check" ] && "$home/hooks/health_check"
exec "$scripts/hc_program.sh"
