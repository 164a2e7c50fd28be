"""What the packages do on the node besides their files: sh, the same for dpkg and rpm."""

from __future__ import annotations

_HOME = "/opt/holdfast"

_FUNCTIONS = f"""\
# The agent's pid, if an agent runs: from its lock, which only root can write.
agent() {{
    pid=''
    read -r pid 2>/dev/null </run/holdfast/agent.lock || return 1
    case $pid in '' | *[!0-9]*) return 1 ;; esac
    # An agent that restarts has no command line for a moment, and one that has ended has none any more.
    for _ in 1 2 3 4 5; do
        words=$(tr '\\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 1
        [ -z "$words" ] || break
        sleep 0.1
    done
    case $words in *' slurm_hooks.agent '*) ;; *) return 1 ;; esac
}}

# Ends the agent, and waits for its end.
end_agent() {{
    agent || return 0
    kill "$pid" || :
    left=300
    while agent && [ "$left" -gt 0 ]; do sleep 0.2; left=$((left - 1)); done
}}

# Python writes these beside the modules; they are no part of the package.
forget_caches() {{ find {_HOME} -name __pycache__ -prune -exec rm -rf {{}} + 2>/dev/null || :; }}

has_systemd() {{ [ -d /run/systemd/system ]; }}
"""

BEFORE = f"""\
[ -d /opt ] || mkdir -p /opt
if [ -L {_HOME} ]; then
    echo "holdfast: {_HOME} is a link to $(readlink {_HOME}), an installation by hand. Remove the link" \\
        "while no job starts here (without its hooks slurmd drains the node), then install again." >&2
    exit 1
fi
if [ -x /usr/bin/python3 ] && ! /usr/bin/python3 -I -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "holdfast: /usr/bin/python3 is $(/usr/bin/python3 --version): 3.10 or newer is needed. Install Holdfast" \\
        "with a newer Python by hand (docs/howto/install.md, step 1)." >&2
    exit 1
fi
"""
"""Before the files are there."""

AFTER = f"""\
{_FUNCTIONS}
{_HOME}/bin/python -I -m compileall -q {_HOME}/lib/python3 >/dev/null 2>&1 || :
has_systemd && systemctl daemon-reload || :
# A running agent becomes the new version. Without one nothing starts: slurm.conf or the unit decides.
if agent; then kill -HUP "$pid" || :; fi
"""
"""After the files are there, also after an upgrade."""

UPGRADED = f"""\
{_FUNCTIONS}
forget_caches
"""
"""Before the files of another version replace these."""

REMOVED = f"""\
{_FUNCTIONS}
has_systemd && systemctl disable --now holdfast-agent 2>/dev/null || :
end_agent
forget_caches
if [ -n "$(command -v scontrol)" ] && timeout 5 scontrol show config 2>/dev/null | grep -q {_HOME}/hooks; then
    echo "holdfast: slurm.conf still names {_HOME}/hooks: remove these lines and run scontrol reconfigure," \\
        "else slurmd drains this node." >&2
fi
"""
"""Before the files are removed for good."""

GONE = f"""\
{_FUNCTIONS}
# A hook that ran until now may have started another one.
end_agent
# Python may have written caches until its last process ended.
find {_HOME} -name __pycache__ -prune -exec rm -rf {{}} + 2>/dev/null || :
find {_HOME} -depth -type d -empty -delete 2>/dev/null || :
"""
"""After the files were removed for good."""

PURGED = "rm -rf /run/holdfast /var/lib/holdfast /var/log/holdfast\n"
"""When nothing is to be left: state and logs. The configuration and the history are the user's."""
