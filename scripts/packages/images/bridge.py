"""The bridge's image: what ``images/bridge/Containerfile`` makes, without a daemon.

Debian's Slurm commands, and ``/opt/holdfast`` with the packages that ``images/bridge/requirements.lock``
pins. It runs as the user of ``holdfast render deployment``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from oci import image, layer
from testbed.errors import SandboxError
from testbed.kube.toolchain import Say
from testbed.paths import TREE
from testbed.pods.assets import bridge_config
from testbed.rootfs.layers import building, digest_of, python_version
from testbed.rootfs.product import PACKAGES as PRODUCT

from holdfast.version import VERSION
from k8s_bridge.render.pod import DEPLOYMENT
from packages.images import base
from packages.images.labels import labels
from packages.sbom import PACKAGE, cyclonedx
from packages.vendored import own

NAME = "holdfast-bridge"
LOCK = TREE / "images/bridge/requirements.lock"
PACKAGES = ("python3", "slurm-client", "slurm-wlm-jwt-plugin", "munge", "sackd")
"""The last two: side-cars that have the cluster's key."""
HOME = "opt/holdfast"
SBOM = f"{HOME}/sbom.cdx.json"

_USER = DEPLOYMENT.values["slurm_user"].default
_UID = DEPLOYMENT.values["uid"].default
LABELS = labels(NAME, "Keeps Slurm's and Kubernetes' node states consistent")
CONFIG = bridge_config(_UID)
_PROGRAM = f"""\
#!/{HOME}/bin/python -I
import sys

from holdfast.cli.main import main

sys.exit(main())
"""


def write(target: Path, cache: Path, say: Say) -> str:
    """Writes the image; returns its digest. As root. Raises ``SandboxError``."""
    return write_on(base.root(PACKAGES, cache, say), target, cache)


def write_on(root: Path, target: Path, cache: Path) -> str:
    """The image with this root as its lower layer."""
    with tempfile.TemporaryDirectory(dir=cache / "images") as scratch:
        folder = Path(scratch)
        home = folder / "home"
        install(root, home, cache)
        layers = (
            layer.compressed(folder / "base", root, base.keep),
            layer.compressed(folder / "product", home),
        )
        return image.write(target, image.Image(layers=layers, labels=LABELS, config=CONFIG))


def install(root: Path, folder: Path, cache: Path) -> None:
    """The upper layer into ``folder``: /opt/holdfast, byte-compiled, and the user."""
    site = folder / _site(root)
    shutil.copytree(_wheels(root, cache), folder, symlinks=True, copy_function=_link)
    for name, content in own().items():
        _put(site / name, content)
    _put(folder / HOME / "bin/holdfast", _PROGRAM.encode(), 0o755)
    _put(folder / HOME / "pyvenv.cfg", b"home = /usr/bin\ninclude-system-site-packages = false\n")
    for name in ("python", "python3"):
        (folder / HOME / "bin" / name).symlink_to("/usr/bin/python3")
    for file, line in _accounts().items():
        _put(folder / file, (root / file).read_bytes() + line.encode())
    packages = [
        *(
            PACKAGE.format(kind="pypi", name=name, version=quote(version))
            for name, version in _installed(site)
        ),
        *(
            PACKAGE.format(kind="deb/debian", name=quote(name), version=quote(version))
            for name, version in base.installed(root)
        ),
    ]
    made = cyclonedx(NAME, VERSION, packages, {})
    _put(folder / SBOM, (json.dumps(made, indent=1) + "\n").encode())
    _compile(root, folder, [site / name for name in PRODUCT])


def _accounts() -> Mapping[str, str]:
    return {
        "etc/passwd": f"{_USER}:x:{_UID}:{_UID}::/nonexistent:/usr/sbin/nologin\n",
        "etc/group": f"{_USER}:x:{_UID}:\n",
    }


def _link(source: str, target: str) -> None:
    """A second name instead of a copy, where both are on one file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _site(root: Path) -> str:
    return f"{HOME}/lib/python{python_version(root)}/site-packages"


def _wheels(root: Path, cache: Path) -> Path:
    """The packages of the lock, byte-compiled; installed once for each lock, and each Python."""
    site = _site(root)
    final = cache / "images" / f"wheels-{digest_of(LOCK.read_text(), site, str(root))}"
    with building(final) as part:
        if not final.is_dir():
            (part / site).mkdir(parents=True)
            _pip(part / site, python_version(root))
            _compile(root, part, [part / site])
    return final


def _pip(site: Path, version: str) -> None:
    argv = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:"),
        *(f"--python-version={version}", "--implementation=cp", f"--target={site}"),
        f"--requirement={LOCK}",
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""}
    )
    if done.returncode:
        raise SandboxError(f"pip: {' '.join(done.stderr.split())[-600:]}")
    # Programs of other packages, whose first line names this machine's Python.
    shutil.rmtree(site / "bin", ignore_errors=True)
    for record in site.glob("*.dist-info/RECORD"):
        record.unlink()  # lists those programs
    for caller in (*site.glob("*.dist-info/INSTALLER"), *site.glob("*.dist-info/REQUESTED")):
        caller.unlink()


def _installed(site: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(site.glob("*.dist-info/METADATA")):
        text = file.read_text(errors="replace")
        name = re.search(r"^Name: (\S+)", text, re.MULTILINE)
        version = re.search(r"^Version: (\S+)", text, re.MULTILINE)
        if name and version:
            yield re.sub("[-_.]+", "-", name[1]).lower(), version[1]


def _compile(root: Path, folder: Path, below: Sequence[Path]) -> None:
    """By the root's Python. Checked by nothing: the files of an image do not change.

    In one process without a random hash seed: the same files give the same bytes.
    """
    enter = 'mount --bind "$1" "$2/mnt" && exec /usr/sbin/chroot "$2" /usr/bin/env -i PYTHONHASHSEED=0 "$3" -I '
    enter += "-m compileall -q --invalidation-mode unchecked-hash -s /mnt -p / "
    enter += " ".join(f"/mnt/{one.relative_to(folder)}" for one in below)
    argv = ["unshare", "--mount", "--propagation=private", "sh", "-c", enter, "sh"]
    done = subprocess.run(
        [*argv, str(folder), str(root), "/usr/bin/python3"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SandboxError(f"compileall: {(done.stdout + done.stderr).strip()[-400:]}")


def _put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
