"""The loop of soperator.md's removal, in mount and process namespaces like those of a worker."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from charts.operators.pages import block

UNSHARE = (
    "unshare",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)
KUBECTL = """\
#!/bin/sh
# Answers `get pods`, and runs here what `exec` is to run in a pod.
[ "$3" = get ] && exec echo pod/worker-0
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
INSIDE = """\
for place in /opt /etc /run /var/log; do mount -t tmpfs tmpfs $place; done
for place in /opt/holdfast/bin /opt/holdfast-0.1.0 /opt/other /etc/holdfast/off /run/holdfast /var/log/holdfast
do mkdir -p $place; done
"""


AGENT = "(exec -a holdfast-agent sleep 300) & echo $! >/run/holdfast/agent.lock"
OTHER = "sleep 300 & echo $! >/run/holdfast/agent.lock"
"""An agent crashed, and its process id is another program's by now."""


@pytest.mark.parametrize(("before", "running"), [(AGENT, "0"), (OTHER, "1"), (":", "0")])
def test_the_agent_ends_and_no_other_process_and_its_files_go(
    tmp_path: Path, before: str, running: str
) -> None:
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no namespaces")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    loop = block("soperator.md", "rm -rf /opt/holdfast*")
    text = f"{INSIDE}{before}\n{loop}\njobs -p -r | wc -l\nrm -rf /run/mount\nls /opt /etc /run /var/log\n"
    done = subprocess.run(
        [*UNSHARE, "bash", "-c", text],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [running, "/etc:", "/opt:", "other", "/run:", "/var/log:"]
