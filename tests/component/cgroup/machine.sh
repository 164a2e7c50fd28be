#!/usr/bin/env bash
# One machine with slurmctld and slurmd, whose cgroups are of version 2 alone. $1: a group of the host's tree of version
# 2, $2: a scratch folder, $3: Slurm's root, $4: the tree of Holdfast, $5: LOOK.py of the test. It prints what that
# prints while a job runs.
set -eu
group=$1 work=$2 root=$3 tree=$4 look=$5
if [ -z "${INSIDE:-}" ]; then
  echo 1 >"$group/cgroup.procs"
  INSIDE=yes exec unshare --cgroup bash "$0" "$@"
fi
hostname cgroups
ip link set lo up && ip link add v0 type veth peer name v1
ip addr add 10.9.9.1/24 dev v0 && ip link set v0 up && ip link set v1 up
mount -t tmpfs tmpfs "$work" && mkdir "$work/u" "$work/w" "$work/r"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/u,workdir=$work/w" "$work/r"
r=$work/r
mount -t proc proc "$r/proc" && mount --bind /dev "$r/dev" && mount -t sysfs sysfs "$r/sys"
mount -t cgroup2 cgroup2 "$r/sys/fs/cgroup"
mkdir -p "$r/etc/slurm" "$r/run/s" "$r/opt/tree"
mount --bind "$tree" "$r/opt/tree"
cp "$look" "$r/opt/look.py"
if [ -n "${SHIM:-}" ]; then cp "$SHIM" "$r/opt/unified.so"; fi
printf '127.0.0.1 localhost\n10.9.9.1 cgroups\n' >"$r/etc/hosts"
head -c 64 /dev/urandom >"$r/etc/slurm/slurm.key" && chmod 600 "$r/etc/slurm/slurm.key"
printf 'CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n' >"$r/etc/slurm/cgroup.conf"
cat >"$r/etc/slurm/slurm.conf" <<'END'
ClusterName=cgroups
SlurmctldHost=cgroups(10.9.9.1)
SlurmUser=root
AuthType=auth/slurm
CredType=auth/slurm
ProctrackType=proctrack/cgroup
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
StateSaveLocation=/run/s
SlurmdSpoolDir=/run/s/d
SlurmctldPidFile=/run/s/slurmctld.pid
SlurmdPidFile=/run/s/slurmd.pid
SlurmctldLogFile=/run/s/slurmctld.log
SlurmdLogFile=/run/s/slurmd.log
ReturnToService=2
NodeName=cgroups NodeAddr=10.9.9.1 CPUs=1
PartitionName=all Nodes=ALL Default=YES
END
chroot "$r" /usr/sbin/slurmctld -D -i >/dev/null 2>&1 &
chroot "$r" env ${SHIM:+LD_PRELOAD=/opt/unified.so} /usr/sbin/slurmd -D >/dev/null 2>&1 &
until chroot "$r" sinfo -h -o %t 2>/dev/null | grep -q idle; do
  if [ "$SECONDS" -gt 40 ]; then tail -n 20 "$r/run/s/slurmd.log" >&2; exit 1; fi
  sleep 0.2
done
chroot "$r" sbatch --quiet --output=/dev/null --wrap 'srun sleep 60'
until chroot "$r" pgrep -x sleep >/dev/null || [ "$SECONDS" -gt 50 ]; do sleep 0.2; done
chroot "$r" python3 /opt/look.py
