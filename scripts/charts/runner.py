"""Runs Soperator's own scripts, and Holdfast's in their place, through every state of a worker.

Each run has mount and process namespaces of its own: the scripts lie in /opt/slurm_scripts, Holdfast's
real hook in /opt/holdfast, the verdict in /run/holdfast, and `scontrol` records what it is asked for.
Of checks.json only Holdfast's entries stay: Soperator's own would clean /dev/shm and the page cache
of the machine on which this runs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.paths import TREE

from charts.errors import NotHeld

CONTEXTS = ("prolog", "epilog", "hc_program")
SCRIPTS = (
    "check_runner.py",
    *(f"{own}{name}.sh" for name in CONTEXTS for own in ("", "soperator_", "holdfast_")),
)
"""What a context may run."""

_LIMIT, _SHORT = "timeout -k 5 25 ", "timeout -k 1 1 "
_LONGEST_S = 30.0

_INSIDE = """\
mount --make-rprivate /
for place in /opt /mnt /run /var/log /usr/local/sbin; do mount -t tmpfs tmpfs "$place"; done
mkdir -p /opt/slurm_scripts /opt/holdfast /mnt/jail /run/holdfast /var/log/holdfast
mount --bind "$1/scripts" /opt/slurm_scripts
[ ! -d "$1/holdfast" ] || mount --bind "$1/holdfast" /opt/holdfast
[ -d "$1/holdfast" ] || rmdir /opt/holdfast
[ ! -e "$1/verdict" ] || cp "$1/verdict" /run/holdfast/verdict
cp "$1"/bin/* /usr/local/sbin/
# Slurm gives its scripts no PATH.
exec env -i HOLDFAST_ETC=/run/etc SLURMD_NODENAME=worker-0 SLURM_JOB_ID=7 \\
    SLURM_JOB_GPUS=0,1,2,3,4,5,6,7 "/opt/slurm_scripts/$2.sh"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One state of a worker. ``hook``: the text of the hooks, empty for Holdfast's own."""

    verdict: str = "ok"
    left_s: int = 600
    slow_path: str = "exit 0"
    hook: str = ""
    truncated: bool = False
    installed: bool = True
    bad: bool = False
    hangs: bool = False


STATES: Mapping[str, State] = {
    "healthy": State(),
    "bad": State(verdict="bad", slow_path="exit 10", bad=True),
    "stale": State(left_s=-1),
    "stale and bad": State(left_s=-1, slow_path="exit 10", bad=True),
    "uninstalled": State(installed=False),
    "crash": State(left_s=-1, slow_path="exit 1"),
    "crash of the hook": State(hook="exit 3", verdict="bad"),
    "killed": State(hook="kill -KILL $$", verdict="bad"),
    "truncated": State(truncated=True, verdict="bad", slow_path="exit 10"),
    "hang": State(hook="trap '' TERM; sleep 99 & wait; sleep 99", verdict="bad", hangs=True),
}


def answers(
    scripts: Mapping[str, str], folder: Path, hooks: str
) -> Mapping[str, Mapping[str, int]]:
    """State → context → exit status. ``scripts``: the data of the chart's ConfigMap.

    Raises ``NotHeld`` if a state other than a bad one refuses a job, a bad one does not, a run does not
    end, or Soperator's runner asks the controller to change the node.
    """
    found: dict[str, dict[str, int]] = {}
    for name, state in STATES.items():
        root = folder / name.replace(" ", "-")
        _lay_out(root, scripts, state)
        found[name] = {context: _run(root, context, name) for context in CONTEXTS}
        expected = dict.fromkeys(CONTEXTS, 0)
        if state.bad:
            # Soperator's runner never fails in an epilog.
            expected |= {"prolog": 1, "epilog": 1 if hooks == "wrapper" else 0}
        if found[name] != expected:
            raise NotHeld(f"hooks={hooks}, {name}: exit statuses {found[name]}, not {expected}")
        asked = root / "bin/asked"
        if asked.exists():
            raise NotHeld(f"hooks={hooks}, {name}: scontrol {asked.read_text().strip()}")
        shutil.rmtree(root)
    return found


def _lay_out(root: Path, scripts: Mapping[str, str], state: State) -> None:
    for name, text in scripts.items():
        if name == "checks.json":
            entries = [entry for entry in json.loads(text) if entry["reason_base"] == "holdfast"]
            text = json.dumps(entries)
        _program(root / "scripts" / name, text.replace(_LIMIT, _SHORT) if state.hangs else text)
    _program(root / "bin/nvidia-smi", "#!/bin/sh\nyes 'NVIDIA H100 80GB HBM3' | head -8\n")
    asked = f'case "$1" in update) echo "$*" >>{root}/bin/asked ;; esac'
    _program(root / "bin/scontrol", f"#!/bin/sh\n{asked}\necho '{{}}'\n")
    if state.installed:
        hook = (TREE / "slurm_hooks/hook").read_text()
        if state.truncated:
            hook = hook[: len(hook) // 2]
        for name in ("prolog", "epilog", "health_check"):
            text = f"#!/bin/sh\n{state.hook}\n" if state.hook else hook
            _program(root / "holdfast/hooks" / name, text)
        _program(root / "holdfast/bin/python", f"#!/bin/sh\n{state.slow_path}\n")
        _verdict(root / "verdict", state)


def _verdict(path: Path, state: State) -> None:
    uptime_s = int(float(Path("/proc/uptime").read_text().split()[0]))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    first = f"{state.verdict} {uptime_s + state.left_s} {boot} holdfast/1"
    path.write_text(f'{first}\n{{"findings": [{{"code": "GPU_LOST"}}]}}\n')


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _run(root: Path, context: str, state: str) -> int:
    # --kill-child: whatever a script leaves behind ends with its namespace.
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv += ["sh", "-ec", _INSIDE, "sh", str(root), context]
    began = time.monotonic()
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        took_s = time.monotonic() - began
        raise NotHeld(f"{context}, {state}: did not end within {took_s:.0f} s") from None
    return done.returncode
