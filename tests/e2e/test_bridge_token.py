"""The bridge's Slurm commands with only a token: no munge, no key, another user."""

from __future__ import annotations

import json

import pytest
from testbed.box import Box

# Hides munge's socket and the key in a mount namespace, and becomes nobody.
_WITHOUT = """
mount -t tmpfs none /run/munge
mount --bind /dev/null /etc/slurm/jwt_hs256.key
exec setpriv --reuid 65534 --regid 65534 --clear-groups \\
  /opt/holdfast/bin/python -c "$PROGRAM" "$1"
"""
_PROGRAM = """
import json, os, sys
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.pyslurm.client import SlurmPyslurm
from holdfast.errors import CommandError
adapter = {"commands": SlurmCli, "pyslurm": SlurmPyslurm}[os.environ["ADAPTER"]]
slurm, seen = adapter(10.0, "", sys.argv[1]), {}
try:
    slurm.drain(["worker-3"], "holdfast:KUBE_CORDON: a test")
    (node,) = slurm.nodes(["worker-3"])
    seen = {"by": node.reason_user, "nodes": len(slurm.nodes()), "clock": slurm.clock().isoformat()}
    slurm.undrain(["worker-3"])
except CommandError as error:
    seen = {"kind": type(error).__name__, "error": str(error)}
print(json.dumps(seen))
"""


@pytest.mark.e2e
def test_a_token_is_all_that_the_bridge_needs_of_slurm(clean_box: Box) -> None:
    _check(clean_box, "commands")


@pytest.mark.e2e
@pytest.mark.pyslurm
def test_a_token_is_all_that_pyslurm_needs_of_slurm(clean_box: Box) -> None:
    _check(clean_box, "pyslurm")


def _check(clean_box: Box, adapter: str) -> None:
    def run_with(token: str) -> dict[str, object]:
        write = f'printf "%s" "$TOKEN" >/run/token; chmod 644 /run/token; {_RUN}'
        env = {"TOKEN": token, "WITHOUT": _WITHOUT, "PROGRAM": _PROGRAM, "ADAPTER": adapter}
        found: dict[str, object] = json.loads(clean_box.run(["sh", "-c", write], env=env).stdout)
        return found

    token = clean_box.run(["scontrol", "token", "username=holdfast", "lifespan=60"]).stdout
    seen = run_with(token)
    assert (seen["by"], seen["nodes"]) == ("holdfast", len(clean_box.nodes))
    refused = run_with(token.strip()[:-4])
    assert refused["kind"] == "Unavailable", refused
    assert run_with("")["kind"] == "Unavailable", (
        "there is another way to authenticate, so this test proves nothing"
    )
    users = run_with(clean_box.run(["scontrol", "token", "username=bob", "lifespan=60"]).stdout)
    assert users["kind"] == "Refused", "bob is no administrator, even with a token"


_RUN = 'unshare --mount sh -c "$WITHOUT" sh /run/token'
