#!/bin/sh
# Brings Holdfast from the jail into this container: /opt/holdfast becomes a link to a copy on the local disk, as hooks
# and agent must not depend on a network file system. Started by holdfast_health_check.sh, which does not wait for it.
set -eu
version=$1
jail=${HOLDFAST_JAIL:-/mnt/jail}/opt/holdfast
home=${HOLDFAST_HOME:-/opt/holdfast}
etc=${HOLDFAST_ETC:-/etc/holdfast}
scripts=${HOLDFAST_SCRIPTS:-/opt/slurm_scripts}
run=${HOLDFAST_RUN:-/run/holdfast}
log=${HOLDFAST_LOG:-/var/log/holdfast}/install.log
copy=$home-$version

mkdir -p "${log%/*}" "$etc/off" "$run"
exec >>"$log" 2>&1
say() { echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) holdfast-install: $1"; }

# One at a time; the lock goes with the process.
exec 9>"$run/install.lock"
flock -n 9 || exit 0

[ -e "$etc/holdfast.yaml" ] || ln -sfn "$scripts/holdfast.yaml" "$etc/holdfast.yaml"

found=$("$jail/bin/python" -I -c 'from holdfast.version import VERSION; print(VERSION)' 2>&1) || {
    say "no Holdfast that works in $jail ($found): install it there, on a login node: /opt/holdfast"
    exit 1
}
if [ "$found" != "$version" ]; then
    say "$jail holds $found and these scripts are of $version: bring them in step"
    exit 1
fi

rm -rf "$copy.part"
cp -a "$jail" "$copy.part"
echo "$version" >"$copy.part/.brought"
rm -rf "$copy"
mv "$copy.part" "$copy"
ln -sfn "$copy" "$home.link"
mv -T "$home.link" "$home"
say "brought $version"

# The agent that runs is of the version before: afresh.
pid=''
if [ -r "$run/agent.lock" ]; then read -r pid <"$run/agent.lock" || true; fi
case $pid in
'' | *[!0-9]*) ;;
*) if grep -q slurm_hooks.agent "/proc/$pid/cmdline" 2>/dev/null; then kill -HUP "$pid"; fi ;;
esac

# By now it has let go of the copy before.
sleep "${HOLDFAST_SETTLE_S:-20}"
for old in "$home"-*; do
    if [ "$old" != "$copy" ]; then rm -rf "$old"; fi
done
