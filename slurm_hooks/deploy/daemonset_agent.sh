#!/bin/sh
# Keeps Holdfast's agent running where slurmd runs, from a pod that sees the machine's processes (hostPID).
#
#   run     finds slurmd, enters its namespaces (mounts, names, processes, network) and runs the agent there, so that it
#           sees what hooks and jobs see: the same /run/holdfast, configuration, slurm.conf, munge socket, libraries.
#   ready   exit 0: the verdict is fresh, or no slurmd runs here.
#   alive   exit 0 unless an agent that says that it runs publishes nothing any more.
home='{{ home }}'
config='{{ config }}'
run=/run/holdfast
pause_s=5
capabilities=chown,dac_override,dac_read_search,fowner,kill,sys_admin,sys_ptrace,syslog

# The pid of a slurmd in whose files Holdfast lies, or nothing. /opt/holdfast may be a link that holds only in there.
find_slurmd() {
    slurmd=''
    for comm in /proc/[0-9]*/comm; do
        name=''
        read -r name 2>/dev/null <"$comm" || continue
        [ "$name" = slurmd ] || continue
        pid=${comm#/proc/}
        pid=${pid%/comm}
        if [ -e "/proc/$pid/root$home" ] || [ -L "/proc/$pid/root$home" ]; then
            slurmd=$pid
            return 0
        fi
    done
    return 1
}

# Slurm's name of the node and its slurm.conf, where slurmd was told them. Else they are the host's name and the default
# place, as seen from in there.
told() {
    node=$(tr '\0' '\n' <"/proc/$1/cmdline" | sed -n -e '/^-N$/{n;p;q}' -e 's/^-N\(..*\)/\1/p')
    conf=$(tr '\0' '\n' <"/proc/$1/cmdline" | sed -n -e '/^-f$/{n;p;q}' -e 's/^-f\(..*\)/\1/p')
    [ -n "$conf" ] || conf=$(tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^SLURM_CONF=//p')
}

# Whether there is a verdict of this boot that may still be believed: asked of what the hooks see.
fresh() {
    expires='' boot='' uptime='' booted='' its_root=/proc/$1/root
    read -r _ expires boot _ 2>/dev/null <"$its_root$run/verdict"
    read -r uptime _ 2>/dev/null <"$its_root/proc/uptime"
    read -r booted 2>/dev/null <"$its_root/proc/sys/kernel/random/boot_id"
    [ -n "$boot" ] && [ "$boot" = "$booted" ] && [ "${uptime%%.*}" -le "$expires" ] 2>/dev/null
}

say() { echo "holdfast-daemonset: $1"; }

run_agent() {
    child='' lock=''
    trap stop TERM INT
    # When memory runs out, a job is to end before the one who tells why. Kept by all that is started here.
    echo -500 2>/dev/null >/proc/self/oom_score_adj
    waiting=''
    while :; do
        if find_slurmd; then
            waiting=''
            told "$slurmd"
            lock=/proc/$slurmd/root$run/agent.lock
            say "agent of ${node:-this host}, beside slurmd $slurmd"
            # pdeathsig: nsenter hands no signal on, and the agent is to end when this script does. Root keeps what the
            # agent needs and no more. --wait: an agent that a health check has started keeps its place until it ends.
            nsenter --target "$slurmd" --mount --root --uts --ipc --net --pid -- \
                setpriv --pdeathsig TERM --no-new-privs "--bounding-set=-all,+$(echo "$capabilities" | sed 's/,/,+/g')" \
                /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                ${node:+"SLURMD_NODENAME=$node"} ${conf:+"SLURM_CONF=$conf"} "HOLDFAST_CONFIG=$config" \
                "$home/bin/python" -I -m slurm_hooks.agent --wait --config "$config" &
            child=$!
            wait "$child"
            say "the agent ended with status $?; again in $pause_s s"
            child=''
        elif [ -z "$waiting" ]; then
            waiting=1
            say "no slurmd with $home runs here; looking every $pause_s s"
        fi
        sleep "$pause_s" &
        wait $!
    done
}

# The agent gives its lock back when it ends in order; a container that ends takes everything with it.
stop() {
    left=25
    if [ -n "$child" ]; then
        kill "$child" 2>/dev/null
        while [ -s "$lock" ] && [ "$left" -gt 0 ]; do
            sleep 0.2
            left=$((left - 1))
        done
    fi
    exit 0
}

case ${1:-} in
run) run_agent ;;
ready)
    find_slurmd || exit 0
    fresh "$slurmd"
    ;;
alive)
    find_slurmd || exit 0
    fresh "$slurmd" || [ ! -s "/proc/$slurmd/root$run/agent.lock" ]
    ;;
*)
    say "run, ready or alive"
    exit 2
    ;;
esac
