"""bob keeps connections to an agent's metrics open: Prometheus still gets its page."""

from __future__ import annotations

import subprocess

import pytest
from testbed.box import Box
from testbed.namespaces import enter

from tests.e2e import agents, cluster

pytestmark = pytest.mark.one_release
PORT = 9409
SCRAPE = f"""
import http.client
client = http.client.HTTPConnection("127.0.0.1", {PORT}, timeout=2)
client.request("GET", "/metrics")
print(client.getresponse().status)
"""
HOLD = f"""
import select, socket
held = []
while True:  # a new one for each that is closed
    held = [link for link in held if not select.select([link], [], [], 0)[0]]
    while len(held) < 64:
        link = socket.socket()
        link.connect(("127.0.0.1", {PORT}))
        held.append(link)
    print("held", flush=True)
    select.select([], [], [], 0.2)
"""


def test_a_user_cannot_block_prometheus(clean_box: Box) -> None:
    node = clean_box.nodes[0]

    def with_port(text: str) -> str:
        return text.replace("agent: {", f"agent: {{metrics_port: {PORT}, ")

    def scraped() -> bool:
        done = node.run(["python3", "-c", SCRAPE], check=False, timeout_s=20)
        return done.stdout.strip() == "200"

    before = agents.configure(clean_box, with_port)
    try:
        cluster.wait_for(scraped, "the metrics are served", 30)
        argv = enter.argv_in(
            node.namespaces_pid, ["python3", "-c", HOLD], user="bob", cwd="/", env={}
        )
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as bob:
            try:
                assert bob.stdout is not None
                assert bob.stdout.readline() == "held\n"
                assert [scraped() for _ in range(5)].count(True) >= 4
                assert bob.poll() is None, "bob is still connecting"
            finally:
                bob.kill()
    finally:
        agents.configure(clean_box, lambda _text: before)
