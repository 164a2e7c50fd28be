"""Root reads bob's files: nothing hangs, fills memory, follows links or controls the terminal."""

from __future__ import annotations

import pytest
from testbed.box import Box, Node

from tests.e2e import cluster

pytestmark = pytest.mark.one_release

HOME = "/mnt/training/bob"
CAUSE = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
ENDLESS = (
    'open("step_5.pt", "wb").write(b"\\x80\\x02}(" + b"".join(b"\\x8a\\x0b" + '
    '(n * (2**61 - 1)).to_bytes(11, "little") + b"K\\x01" for n in range(1, 200001)) + b"u.")'
)
SOON_S = 60
"""Time limit; the slowest of these commands takes 20 s."""


def bobs(box: Box, script: str) -> Node:
    """The first node, after bob has run a script in his folder on the shared filesystem."""
    node = box.nodes[0]
    node.run(["rm", "-rf", HOME])
    node.run(["install", "-d", "-o", "bob", "-m", "755", HOME])
    node.run(["sh", "-c", f"cd {HOME}\n{script}"], user="bob")
    return node


def run(node: Node, *argv: str, user: str = "root") -> tuple[int, str]:
    """Exit status and output of a holdfast command with at most 2 GiB of memory."""
    bounded = ["sh", "-c", 'ulimit -v 2097152; exec "$@"', "sh", "holdfast", *argv]
    done = node.run(bounded, user=user, timeout_s=SOON_S, check=False)
    return done.returncode, done.stdout + done.stderr


def is_plain(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text)


def test_hostile_logs(clean_box: Box) -> None:
    node = bobs(
        clean_box,
        "mkfifo pipe; ln -s /dev/zero zero; ln -s /etc/shadow shadow; mkdir real; ln -s real linked\n"
        f"printf '\\033]0;owned\\007\\302\\233 {CAUSE}\\n' > real/log; truncate -s 1T huge",
    )
    for name, why in (
        ("pipe", "not a regular file: a named pipe"),
        ("zero", "zero is a symbolic link of uid 2002, which root does not follow"),
        ("shadow", "shadow is a symbolic link of uid 2002, which root does not follow"),
        ("linked/log", "linked is a symbolic link of uid 2002, which root does not follow"),
        ("huge", "larger than 16 GiB"),
    ):
        status, text = run(node, "diagnose", f"{HOME}/{name}")
        assert (status, text.count("\n")) == (2, 1), text
        assert why in text
    for argv in (("diagnose",), ("diagnose", "--json")):
        status, text = run(node, *argv, f"{HOME}/real/log")
        assert status == 0
        assert CAUSE in text
        assert is_plain(text)
    # As bob: his own links, and a pipe as standard input.
    assert run(node, "diagnose", f"{HOME}/linked/log", user="bob")[0] == 0
    status, text = run(node, "diagnose", f"{HOME}/zero", user="bob")
    assert (status, "not a regular file: a device" in text) == (2, True)
    piped = f"cat {HOME}/real/log | holdfast diagnose -"
    assert node.run(["sh", "-c", piped], user="bob", timeout_s=SOON_S).returncode == 0


def test_hostile_checkpoints(clean_box: Box) -> None:
    # step_5: 200,000 keys whose hashes are all 0; step_6: a pickle that allocates 64 GiB.
    node = bobs(
        clean_box,
        "mkfifo step_1.pt; ln -s /dev/zero step_2.pt; ln -s /etc/shadow step_3.pt\n"
        "mkdir step-4; mkfifo step-4/.metadata; touch \"$(printf 'step_7\\033]0;owned\\007.pt')\"\n"
        f"python3 -c '{ENDLESS}'\n"
        'python3 -c \'open("step_6.pt", "wb").write(b"\\x80\\x02K\\x01r\\xff\\xff\\xff\\xff.")\'',
    )
    slow = "cannot be read: no answer in"  # takes its time-out, so it is read once
    for argv in (("checkpoints",), ("checkpoints", "--json")):
        status, text = run(node, *argv, HOME)
        assert status == 1
        assert is_plain(text)
        assert (slow in text) == ("--json" not in argv)
        for why in (
            "not a checkpoint: not a regular file: a named pipe",
            "not a checkpoint: step_2.pt is a symbolic link of uid 2002",
            "not a checkpoint: .metadata: not a regular file: a named pipe",
            "neither a zip archive nor torch's legacy format",
        ):
            assert why in text, text
        node.run(["rm", "-f", f"{HOME}/step_5.pt"], user="bob")
    node.run(["ln", "-s", "/", f"{HOME}/elsewhere"], user="bob")
    assert run(node, "checkpoints", f"{HOME}/elsewhere")[0] == 2


def test_hostile_journals(clean_box: Box) -> None:
    """Root explains bob's job."""
    node = bobs(clean_box, "mkdir .holdfast")
    name = "owned\x1b[2J"
    submit = ["sbatch", "--parsable", "-H", f"--job-name={name}", f"--chdir={HOME}", "--wrap=true"]
    job = clean_box.run(submit, user="bob", cwd="/").stdout.strip()
    journal = f"{HOME}/.holdfast/job-{job}.jsonl"
    forged = '{"event": "attempt", "t": "x", "nodes": 7}\\n{"event": "decision", "why": "a\\\\u001b[2J\\\\n  back  x"}'
    try:
        for make, why in (
            (f"mkfifo {journal}", "(cannot be read: not a regular file: a named pipe)"),
            (
                f"ln -s /dev/zero {journal}",
                "is a symbolic link of uid 2002, which root does not follow",
            ),
            (f"truncate -s 1T {journal}", "(cannot be read: larger than"),
            (f"printf '{forged}' > {journal}", "ATTEMPT"),
        ):
            node.run(["sh", "-c", f"rm -f {journal}; {make}"], user="bob")
            status, text = run(node, "explain", job)
            assert status == 0, text
            assert why in text
            assert is_plain(text)
            assert "\n  back  x" not in text
            assert is_plain(run(node, "explain", "--json", job)[1])
    finally:
        clean_box.run(["scancel", job])


def test_hostile_history_files(clean_box: Box) -> None:
    """Files that bob put into a shared history folder."""
    node = bobs(clean_box, "mkfifo worker-8.jsonl; ln -s /dev/zero worker-9.jsonl")
    config = f"{HOME}/holdfast.yaml"
    node.run(["sh", "-c", f"echo 'paths: {{history: {HOME}}}' > {config}"])
    done = node.run(
        ["holdfast", "history"], env={"HOLDFAST_CONFIG": config}, timeout_s=SOON_S, check=False
    )
    assert "worker-8.jsonl: cannot be read (not a regular file: a named pipe)" in done.stderr
    assert "which root does not follow" in done.stderr


def test_no_node_was_drained(clean_box: Box) -> None:
    clean_box.nodes[0].run(["rm", "-rf", HOME])
    assert cluster.all_in_service(clean_box)
