"""Holdfast as installed in a box: /opt/holdfast, a venv over the root's Python, and its configuration.

The result equals a pip install on a real node. It is built from this working tree and from wheels
that requirements.lock pins by hash.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed.errors import SandboxError
from testbed.paths import TREE, cache
from testbed.rootfs.layers import (
    Say,
    building,
    byte_compile,
    digest_of,
    layer,
    python_version,
    sources,
)
from testbed.shape import HISTORY

PREFIX = "opt/holdfast"
PACKAGES = {
    "holdfast": ("*.py", "*.j2"),
    "slurm_hooks": ("*.py", "hook", "*.j2"),
    "k8s_bridge": ("*.py", "*.j2"),
}
"""Package -> patterns of its installed files."""

ROOT_REQUIREMENTS = ("jinja2", "kubernetes", "nvidia-ml-py", "prometheus-client", "rich")
"""PyYAML comes with the root (Debian's python3-yaml)."""

WHEELHOUSE = "opt/wheels"
_PIP_CONF = (
    f"[global]\nno-index = true\nfind-links =\n    /{WHEELHOUSE}\n    /usr/share/python-wheels\n"
)
"""Debian's python3-venv has setuptools, which builds Holdfast's wheel."""

HOOKS = ("prolog", "epilog", "health_check")
LOCK = TREE / "requirements.lock"

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)==(\S+)(?: ; (.*?))?(?: \\)?$", re.MULTILINE)


def product_layer(root: Path) -> Path:
    """/opt/holdfast with the working tree's packages, byte-compiled; built once for each content."""
    version = python_version(root)
    site = f"{PREFIX}/lib/python{version}/site-packages"
    files = {
        f"{site}/{path.relative_to(TREE)}": path
        for package, patterns in PACKAGES.items()
        for path in sources(TREE / package, patterns)
    }
    hook = TREE / "slurm_hooks/hook"
    files |= {f"{PREFIX}/hooks/{name}": hook for name in HOOKS if hook.exists()}
    start = f"#!/{PREFIX}/bin/python -I\nimport sys\n\nfrom holdfast.cli.main import main\n\nsys.exit(main())\n"
    texts = {
        f"{PREFIX}/bin/holdfast": start,
        f"{PREFIX}/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = true\n",
    }
    links = {f"{PREFIX}/bin/{name}": "/usr/bin/python3" for name in ("python", "python3")}
    return layer("product", files, texts, links=links, root=root)


def wheels_layer(root: Path, say: Say) -> Path:
    """Holdfast's dependencies for the root's Python: from the lock, verified by hash, byte-compiled."""
    return _wheels(
        "wheels", f"{PREFIX}/lib/python{{version}}/site-packages", root, ROOT_REQUIREMENTS, say
    )


def wheelhouse_layer(root: Path, say: Say) -> Path:
    """What pip installs beside Holdfast, as wheels, and pip's configuration that names them: a box has no network."""
    return _wheels("wheelhouse", WHEELHOUSE, root, (*ROOT_REQUIREMENTS, "pyyaml"), say)


def _wheels(kind: str, folder: str, root: Path, wanted: Sequence[str], say: Say) -> Path:
    """The layer with Holdfast's dependencies in ``folder``: installed there, or their wheels and pip.conf."""
    version = python_version(root)
    pins = list(pinned(LOCK.read_text(), version, wanted))
    final = cache() / "layers" / f"{kind}-py{version}-{digest_of(version, *pins)}"
    if final.is_dir():
        return final
    start = time.monotonic()
    say(f"Downloading Holdfast's dependencies for Python {version} (once, about 30 s)")
    with building(final) as part:
        if final.is_dir():
            return final
        target = part / folder.format(version=version)
        target.mkdir(parents=True)
        if kind == "wheelhouse":
            _pip("download", pins, version, f"--dest={target}", part.with_suffix(".txt"))
            (part / "etc").mkdir()
            (part / "etc/pip.conf").write_text(_PIP_CONF)
        else:
            _pip("install", pins, version, f"--target={target}", part.with_suffix(".txt"))
            byte_compile(root, part)
    say(f"  {time.monotonic() - start:5.0f} s  Python packages ready")
    return final


def pinned(lock: str, version: str, names: Sequence[str] = ROOT_REQUIREMENTS) -> Iterator[str]:
    """The lock's entries, with hashes, that the packages ``names`` need under Python ``version``.

    uv writes `# via` and the names of the dependents after each requirement.
    """
    from packaging.markers import Marker  # noqa: PLC0415 - in .venv, which `--help` works without

    entries = list(_entries(lock))
    wanted = set(names)
    while True:
        more = {name for name, via, _, _ in entries if via & wanted} - wanted
        if not more:
            break
        wanted |= more
    missing = set(names) - {name for name, *_ in entries}
    if missing:
        raise SandboxError(
            f"{LOCK.name} does not pin {', '.join(sorted(missing))}; update the lock"
        )
    environment = {"python_version": version, "python_full_version": f"{version}.0"}
    for name, _, marker, text in entries:
        if name in wanted and (not marker or Marker(marker).evaluate(environment)):
            yield text


def _entries(lock: str) -> Iterator[tuple[str, set[str], str, str]]:
    """(name, dependents, marker, `name==version --hash=…`) of every requirement in uv's lock."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        match = _REQUIREMENT.match(block)
        if not match:
            continue
        hashes = re.findall(r"--hash=\S+", block)
        via = set(re.findall(r"^ +#(?: via)? +([A-Za-z0-9._-]+)", block, re.MULTILINE)) - {"via"}
        yield match[1], via, match[3] or "", " ".join((f"{match[1]}=={match[2]}", *hashes))


def _pip(verb: str, pins: list[str], version: str, target: str, listing: Path) -> None:
    listing.write_text("\n".join(pins) + "\n")
    argv = [
        sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check", "--no-deps",
        *(["--no-compile"] if verb == "install" else []),
        "--require-hashes", "--only-binary=:all:", f"--python-version={version}", "--implementation=cp",
        target, f"--requirement={listing}",
    ]  # fmt: skip
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""}
    )
    listing.unlink()
    if done.returncode:
        raise SandboxError(
            f"pip cannot download Holdfast's dependencies: {' '.join(done.stderr.split())[-600:]}"
        )


def has_pyslurm(root: Path) -> bool:
    """Whether the root's own Python has pyslurm."""
    return any(root.glob("usr/local/lib/python3*/dist-packages/pyslurm/__init__.py"))


def configuration(nodes: int, *, pyslurm: bool = False) -> str:
    """holdfast.yaml of a box: every check armed, intervals short, the simulated machine's paths.

    ``pyslurm``: bridge and commands reach Slurm through it.
    """
    from slurm_hooks.checks import CATALOGUE  # noqa: PLC0415 - only where a box is made

    lines = [
        "# Written by the sandbox. Every check may drain here; on your own cluster start with mode: observe.",
        "cluster: demo",
        f"paths: {{kmsg: /sim/kmsg, sysfs: /sim/sys, history: {HISTORY}}}",
        f"slurm: {{timeout_s: 5{', adapter: pyslurm' if pyslurm else ''}}}",
        "node:",
        "  expected_gpus: 8",
        "  mounts: [/mnt/training, /mnt/inference]",
        "  disks: [/, /tmp]",
        f"  budget: {{max_nodes: {max(2, nodes // 4)}, max_share: 0.1}}",
        "agent: {interval_s: 1, probe_deadline_s: 1, verdict_ttl_s: 10, recheck_passes: 2,",
        "        wait_s: 2, return_window_s: 20, clock_interval_s: 5, slow_interval_s: 2}",
        "checks:",
        *(
            f"  {name}: {{mode: drain{', limits: {nvswitches: 4}' if name == 'pci_devices' else ''}}}"
            for name in CATALOGUE
        ),
        "active: {start_s: 20, host: {modules: []}, storage: {size_mib: 16, min_write_mb_s: 2, min_read_mb_s: 2}}",
        "job: {poll_s: 2}",
        "bridge:",
        "  poll_s: 0.5",
        "  metrics_port: 9646",
        "  rules: [{use: nebius-maintenance, mode: drain, clear_s: 1}]",
    ]
    return "\n".join(lines) + "\n"
