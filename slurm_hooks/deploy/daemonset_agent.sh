#!/bin/sh
# Keeps Holdfast's agent running where slurmd runs, from a pod that sees the machine's processes (hostPID).
#
#   run     finds slurmd, enters its namespaces (mounts, names, processes, network) and runs the agent there, so that it
#           sees what hooks and jobs see: the same /run/holdfast, configuration, slurm.conf, munge socket, libraries.
#   ready   exit 0: the verdict is fresh, or no slurmd runs here.
#   alive   exit 0 unless an agent that says that it runs publishes nothing any more.
#
# A user may start any program under the name slurmd, in user, mount and process namespaces of his own. So the name is
# only where the search begins (is_slurmd says what else must hold), and nothing is read, entered or run before that.
home='{{ home }}'
config='{{ config }}'
programs='{{ programs }}'
run=/run/holdfast
pause_s=5
capabilities=chown,dac_override,dac_read_search,fowner,kill,sys_admin,sys_ptrace,syslog

# The user namespace that the kernel starts with always has this number (PROC_USER_INIT_INO, include/linux/proc_ns.h).
in_initial_user_namespace() { [ "$(readlink /proc/self/ns/user)" = 'user:[4026531837]' ]; }

# Reads the name, the parent and the uids from the given /proc/PID/status. Whether the name is slurmd and the real, the
# effective, the saved and the filesystem uid are 0: a setuid program that a user starts has his real uid. Starts no
# program: a user may have ten thousand processes of that name.
is_root_named_slurmd() {
    parent='' uids=''
    while read -r key first second third fourth; do
        case $key in
        Name:) [ "$first $second" = 'slurmd ' ] || return 1 ;;
        PPid:) parent=$first ;;
        Uid:)
            uids="$first $second $third $fourth"
            break
            ;;
        esac
    done 2>/dev/null <"$1"
    [ "$uids" = '0 0 0 0' ]
}

# Whether the process in whose folder of /proc this shell stands is slurmd, run by the machine's root. The folder, not the
# number: it stays empty when the process ends, also when the number is used again.
# shellcheck disable=SC3013  # -ef: POSIX since 2024, and older in dash and busybox
is_slurmd() {
    is_root_named_slurmd status && [ ns/user -ef /proc/self/ns/user ] || return 1
    program=$(readlink exe) || return 1
    allowed=''
    for path in $programs; do
        # An upgrade deletes the file of a slurmd that goes on running.
        case $program in "$path" | "$path (deleted)") allowed=1 ;; esac
        [ ! exe -ef "root$path" ] || allowed=1
    done
    if [ -n "$allowed" ]; then
        # Root's own file, which nobody else may write.
        case $(stat -L -c '%u %a' exe) in
        '0 '*[2367]? | '0 '*[2367]) ;;
        '0 '*) return 0 ;;
        esac
    fi
    wrong=$program
    return 1
}

# The pid of a slurmd in whose files Holdfast lies, or nothing; this shell then stands in its folder of /proc.
# /opt/holdfast may be a link that holds only in there.
find_slurmd() {
    slurmd='' named=' ' rows='' wrong=''
    for comm in /proc/[0-9]*/comm; do
        name=''
        read -r name 2>/dev/null <"$comm" || continue
        [ "$name" = slurmd ] || continue
        pid=${comm#/proc/}
        pid=${pid%/comm}
        is_root_named_slurmd "/proc/$pid/status" || continue
        named="$named$pid "
        rows="$rows $pid:$parent"
    done 2>/dev/null
    for row in $rows; do
        # A child of slurmd has its name until it runs a program, and may have a job's mounts already.
        case $named in *" ${row#*:} "*) continue ;; esac
        pid=${row%:*}
        cd "/proc/$pid" 2>/dev/null || continue
        if is_slurmd && { [ -e "root$home" ] || [ -L "root$home" ]; }; then
            slurmd=$pid
            return 0
        fi
    done 2>/dev/null
    cd /
    return 1
}

# Slurm's name of the node and its slurm.conf, where slurmd was told them. Else they are the host's name and the default
# place, as seen from in there. Of the process in whose folder this shell stands. False for what neither can be.
told() {
    node=$(tr '\0' '\n' <cmdline | sed -n -e '/^-N$/{n;p;q}' -e 's/^-N\(..*\)/\1/p')
    conf=$(tr '\0' '\n' <cmdline | sed -n -e '/^-f$/{n;p;q}' -e 's/^-f\(..*\)/\1/p')
    [ -n "$conf" ] || conf=$(tr '\0' '\n' <environ | sed -n 's/^SLURM_CONF=//p')
    case $node in *[!A-Za-z0-9._-]* | [._-]*) return 1 ;; esac
    case $conf in '') ;; *[!A-Za-z0-9./_@+-]* | *..* | [!/]*) return 1 ;; esac
}

# Whether there is a verdict of this boot that may still be believed: asked of what the hooks see.
fresh() {
    expires='' boot='' uptime='' booted=''
    read -r _ expires boot _ 2>/dev/null <"root$run/verdict"
    read -r uptime _ 2>/dev/null <root/proc/uptime
    read -r booted 2>/dev/null <root/proc/sys/kernel/random/boot_id
    [ -n "$boot" ] && [ "$boot" = "$booted" ] && [ "${uptime%%.*}" -le "$expires" ] 2>/dev/null
}

say() { echo "holdfast-daemonset: $1"; }

# The same line is said once, however often it is true.
say_once() {
    [ "$said" = "$1" ] || say "$1"
    said=$1
}

run_agent() {
    child='' said=''
    trap stop TERM INT
    # When memory runs out, a job is to end before the one who tells why. Kept by all that is started here.
    echo -500 2>/dev/null >/proc/self/oom_score_adj
    while :; do
        if ! find_slurmd; then
            if [ -n "$wrong" ]; then
                say_once "no slurmd that may be entered runs here: $(printable "$wrong") is not one of $programs\
 (--set slurmd=…), or others than root may write it; looking every $pause_s s"
            else
                say_once "no slurmd with $home runs here; looking every $pause_s s"
            fi
        elif ! told; then
            say_once "slurmd $slurmd runs with a -N, -f or SLURM_CONF that is no node name or no absolute path: no agent"
        else
            said=''
            say "agent of ${node:-this host}, beside slurmd $slurmd"
            # pdeathsig: nsenter hands no signal on, and the agent is to end when this script does. Root keeps what the
            # agent needs and no more. --wait: an agent that a health check has started keeps its place until it ends.
            nsenter --mount=ns/mnt --root=root --wd=root --uts=ns/uts --ipc=ns/ipc --net=ns/net --pid=ns/pid -- \
                setpriv --pdeathsig TERM --no-new-privs "--bounding-set=-all,+$(echo "$capabilities" | sed 's/,/,+/g')" \
                /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                ${node:+"SLURMD_NODENAME=$node"} ${conf:+"SLURM_CONF=$conf"} "HOLDFAST_CONFIG=$config" \
                "$home/bin/python" -I -m slurm_hooks.agent --wait --config "$config" &
            child=$!
            wait "$child"
            say "the agent ended with status $?; again in $pause_s s"
            child=''
        fi
        sleep "$pause_s" &
        wait $!
    done
}

# A path that a user may have chosen, for the log.
printable() { printf '%s' "$1" | tr -c 'A-Za-z0-9./_@+ ()-' '?'; }

# The agent gives its lock back when it ends in order; a container that ends takes everything with it.
stop() {
    left=25
    if [ -n "$child" ]; then
        # Of the agent and not of slurmd, which may be another process since (scontrol reconfigure).
        cd "/proc/$child/root$run" 2>/dev/null || cd /
        kill "$child" 2>/dev/null
        while [ -s agent.lock ] && [ "$left" -gt 0 ]; do
            sleep 0.2
            left=$((left - 1))
        done
    fi
    exit 0
}

if ! in_initial_user_namespace; then
    say "this pod has a user namespace of its own (hostUsers: false?): it cannot tell root's slurmd from a user's"
    [ "${1:-}" = alive ] && exit 0
    exit 2
fi
case ${1:-} in
run) run_agent ;;
ready)
    find_slurmd || exit 0
    fresh
    ;;
alive)
    find_slurmd || exit 0
    fresh || [ ! -s "root$run/agent.lock" ]
    ;;
*)
    say "run, ready or alive"
    exit 2
    ;;
esac
