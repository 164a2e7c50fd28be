"""A person drains a node at the moment when its agent returns it to service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testbed.box import Box

from tests.e2e import agents, cluster

pytestmark = pytest.mark.e2e

TOOLS = "/opt/overtaking"
_SCONTROL = """\
#!/bin/sh
case "$*" in
  *State=UNDRAIN*)
    rm /run/overtake 2>/dev/null && {real} update "$2" State=DRAIN Reason="ticket 9 | ask Anna"
    if [ -e /run/die ]; then
      {real} "$@"
      rm /run/die
      pkill -KILL -f "[s]lurm_hooks.agent"
      exit 1
    fi ;;
esac
exec {real} "$@"
"""


@pytest.fixture
def overtaking_box(clean_box: Box) -> Iterator[Box]:
    """The agents' scontrol inserts a manual drain right before their undrain, where a node has
    /run/overtake."""
    folder = clean_box.path(TOOLS)
    folder.mkdir(exist_ok=True)
    for tool in ("sinfo", "sdiag", "sacctmgr", "scontrol"):
        real = clean_box.run(["sh", "-c", f"command -v {tool}"]).stdout.strip()
        text = _SCONTROL if tool == "scontrol" else '#!/bin/sh\nexec {real} "$@"\n'
        (folder / tool).write_text(text.format(real=real))
        (folder / tool).chmod(0o755)
    before = agents.configure(
        clean_box, lambda text: text.replace("slurm: {", f"slurm: {{bin: {TOOLS}, ")
    )
    yield clean_box
    agents.configure(clean_box, lambda _text: before)


def test_a_drain_between_the_last_check_and_the_undrain_is_kept(overtaking_box: Box) -> None:
    box, node, other = overtaking_box, "worker-1", "worker-2"
    for name in (node, other):
        box.fault(name, "gpu-lost", "--gpu", "4")
        cluster.wait_for(lambda name=name: cluster.drained(box, name), f"{name} drained", 10)  # type: ignore[misc]
    box.node(node).run(["touch", "/run/overtake"])
    box.heal(node)
    box.node(node).run(["touch", "/run/overtake"])  # /run is empty after each boot
    box.heal(other)
    cluster.wait_for(lambda: cluster.in_service(box, other), f"{other} returned to service")
    cluster.wait_for(
        lambda: cluster.reason(box, node) == "ticket 9 | ask Anna", "the manual drain", 40
    )
    assert not box.node(node).path("/run/overtake").exists(), "the agent has undrained the node"
    cluster.stays(
        lambda: cluster.reason(box, node) == "ticket 9 | ask Anna" and cluster.drained(box, node),
        "the manual drain is kept with its reason",
        8,
    )


@pytest.mark.one_release
def test_an_agent_restarted_right_after_an_undrain_audits_it(overtaking_box: Box) -> None:
    """slurmdbd is down meanwhile: the agent retries until it answers."""
    box, node = overtaking_box, "worker-1"
    box.fault(node, "ecc", "--gpu", "4")
    cluster.wait_for(lambda: cluster.drained(box, node), f"{node} drained", 15)
    box.node(node).run(["touch", "/run/overtake", "/run/die"])
    box.fault("controller", "slurmdbd-down")
    try:
        box.heal(node)
        gone = lambda: not box.node(node).path("/run/die").exists()  # noqa: E731
        cluster.wait_for(gone, "the agent undrained the node and was killed", 40)
        assert not box.node(node).path("/run/overtake").exists()
    finally:
        box.heal("controller")
    cluster.wait_for(
        lambda: cluster.reason(box, node) == "ticket 9 | ask Anna", "the manual drain", 90
    )
    cluster.stays(lambda: cluster.drained(box, node), "the manual drain is kept", 5)
    assert not box.node(node).path("/var/lib/holdfast/return.json").exists()
