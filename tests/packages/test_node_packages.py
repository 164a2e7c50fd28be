"""The node's packages: installed into a real Debian, used there, and removed without a trace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packages import zipapp
from packages.node import deb, rpm
from packages.node.tree import HOME, HOOKS, tree
from packages.vendored import components
from testbed.paths import cache
from testbed.rootfs import roots

from holdfast.version import VERSION
from tests.packages.root import Root

CONFIG = "{cluster: c, paths: {sysfs: /nonexistent}, agent: {interval_s: 1}}"

USE = f"""
holdfast --version
holdfast faults XID79 | head -1
/{HOME}/bin/python -I -c 'import pynvml, yaml, jinja2, rich; print(yaml.__version__, yaml.__file__)'
for hook in {" ".join(HOOKS)}; do
    # As slurmd starts it: without a PATH. No agent runs, so the slow path answers.
    SLURM_JOB_ID=1 HOLDFAST_HOOK_TIMEOUT_S=60 /usr/bin/env -u PATH /{HOME}/hooks/$hook
    echo "$hook $?"
done
"""

AGENT = f"""
mkdir -p /etc/holdfast
echo '{CONFIG}' >/etc/holdfast/holdfast.yaml
/{HOME}/bin/python -I -m slurm_hooks.agent --node worker-0 >/tmp/agent.log 2>&1 &
pid=$!
waited() {{ for n in $(seq 600); do if eval "$1"; then return; fi; sleep 0.1; done; cat /tmp/agent.log; exit 1; }}
waited '[ -s /run/holdfast/verdict ]'
"""


@pytest.fixture(params=["24.11", "26.05"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    """Two releases of Python: the package fits both."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts an overlay and enters it")
    if not roots.is_built(request.param, cache()):
        pytest.skip(f"no root of Slurm {request.param} in the cache: run scripts/sandbox up once")
    return Root(lower=cache() / "roots" / request.param, folder=tmp_path)


@pytest.fixture
def rpmbuild() -> None:
    if not shutil.which("rpmbuild"):
        pytest.skip("no rpmbuild on PATH (Debian's package rpm)")


def test_the_deb_is_used_upgraded_and_removed_without_a_trace(root: Root) -> None:
    deb.write(root.packages / "holdfast.deb")
    said = root.run(f"dpkg -i /mnt/holdfast.deb\n{USE}\ndpkg -V holdfast\necho verified")
    assert f"holdfast {VERSION}" in said
    assert f"/{HOME}/lib/python3." in said
    assert [line for line in said.splitlines() if line.startswith(HOOKS)] == [
        f"{hook} 0" for hook in HOOKS
    ]
    assert said.endswith("verified\n")

    said = root.run(
        "dpkg -i /mnt/holdfast.deb >/dev/null\n"
        f"{AGENT}\n"
        "before=$(cat /run/holdfast/agent.lock)\n"
        "rm /run/holdfast/verdict\n"
        "dpkg -i /mnt/holdfast.deb >/dev/null\n"
        "waited '[ -s /run/holdfast/verdict ]'\n"
        'echo "$before $(cat /run/holdfast/agent.lock) $pid"\n'
        "grep -c . /tmp/agent.log\n"
        "dpkg -r holdfast >/dev/null\n"
        'if [ -e "/proc/$pid" ]; then wait "$pid" || :; fi\n'
        "dpkg -P holdfast >/dev/null\n"
        f"ls -A /{HOME} 2>&1 || echo gone\n"
        "rm -r /etc/holdfast"
    )
    first, second, pid = said.splitlines()[0].split()
    assert first == second == pid, "an upgrade reloads the agent, and does not start another"
    assert "gone" in said
    assert root.changed() == []


def test_an_installation_by_hand_is_not_written_into(root: Root) -> None:
    deb.write(root.packages / "holdfast.deb")
    said = root.run(
        f"mkdir /{HOME}-0.0.9 && ln -s {Path(HOME).name}-0.0.9 /{HOME}\n"
        "dpkg -i /mnt/holdfast.deb && exit 1\n"
        f"ls -A /{HOME}/ | wc -l"
    )
    assert "is a link to holdfast-0.0.9, an installation by hand. Remove the link" in said
    assert said.endswith("0\n")


def test_the_rpm_is_used_and_removed_without_a_trace(root: Root, rpmbuild: None) -> None:
    rpm.write(root.packages / "holdfast.rpm")
    # Its requirements are those of a system of RPMs: this root has them as Debian's packages.
    root.rpm("-i", "--nodeps", str(root.packages / "holdfast.rpm"))
    said = root.run(USE)
    assert f"holdfast {VERSION}" in said
    assert [line for line in said.splitlines() if line.startswith(HOOKS)] == [
        f"{hook} 0" for hook in HOOKS
    ]
    assert root.rpm("-V", "--nodeps", "holdfast") == ""
    root.rpm("-e", "holdfast")
    # On a system of RPMs that folder belongs to the package filesystem.
    assert set(root.changed()) <= {"usr/share/man/man1"}


@pytest.mark.parametrize("make", [deb.write, zipapp.write, rpm.write], ids=["deb", "zipapp", "rpm"])
def test_the_same_tree_gives_the_same_bytes(
    make: object, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if make is rpm.write:
        request.getfixturevalue("rpmbuild")
    for name in ("one", "two"):
        make(tmp_path / name)  # type: ignore[operator]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_zipapp_needs_nothing_but_python(tmp_path: Path) -> None:
    """-S: not even the packages of the Python that runs it. Its parts start each other."""
    program = tmp_path / "holdfast.pyz"
    zipapp.write(program)
    start = [sys.executable, "-I", "-S", program.name]

    def said(*args: str, status: int = 0) -> str:
        done = subprocess.run(
            [*start, *args], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == status, done.stderr
        return done.stdout

    assert said("--version") == f"holdfast {VERSION}\n"
    assert "kind: ClusterRole" in said("render", "rbac")
    config = tmp_path / "holdfast.yaml"
    config.write_text("{cluster: c, node: {expected_gpus: 9}}")
    assert said("config", "check", str(config), status=0)
    answer = said("-m", "holdfast", "--version")
    assert answer == f"holdfast {VERSION}\n"
    code = "import sys; sys.path.insert(0, 'holdfast.pyz'); from holdfast.own_program import own_program; "
    code += "print(*own_program('slurm_hooks.agent', '--help'))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.split()
    assert words[1:] == ["-I", "holdfast.pyz", "-m", "slurm_hooks.agent", "--help"]
    helped = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert helped.returncode == 0, helped.stderr
    assert "usage:" in helped.stdout


def test_the_bill_of_materials_names_the_locked_versions() -> None:
    made = json.loads(tree().files[f"{HOME}/sbom.cdx.json"])
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    assert made["metadata"]["component"]["version"] == VERSION
    wanted = {f"pkg:pypi/{one.name}@{one.version}" for one in components()}
    assert {one["purl"] for one in made["components"]} == wanted
