"""The .rpm, by rpmbuild: its header is too large to write by hand. rpmbuild needs no daemon either."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from testbed.errors import SandboxError

from holdfast.version import VERSION
from packages.node import scripts
from packages.node.tree import ABOUT, SUMMARY, Tree, tree

RELEASE = "1"
_EPOCH_S = "315532800"
"""1980-01-01: every time in the package."""

_SPEC = f"""\
Name: holdfast
Version: {VERSION}
Release: {RELEASE}
Summary: {SUMMARY}
License: MIT
BuildArch: noarch
Requires: /usr/bin/python3, python(abi) >= 3.10
AutoReqProv: no

%description
{ABOUT}

%install
cp -a %{{tree}}/. %{{buildroot}}/

%pre
{scripts.BEFORE}
%post
{scripts.AFTER}
%preun
if [ "$1" = 0 ]; then
{scripts.REMOVED}
fi

%postun
if [ "$1" = 0 ]; then
{scripts.GONE}
fi

%files
{{files}}"""

_SETTINGS = {
    "_buildhost": "localhost",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "_binary_payload": "w9.gzdio",
    "__os_install_post": "%{nil}",
    "_build_id_links": "none",
    "debug_package": "%{nil}",
}


def write(target: Path) -> None:
    """Raises ``SandboxError`` without rpmbuild, or where it fails."""
    program = shutil.which("rpmbuild")
    if program is None:
        raise SandboxError("rpmbuild is not on PATH: install rpm (Debian) or rpm-build (elsewhere)")
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        content = tree()
        lay_out(content, top / "tree")
        (top / "holdfast.spec").write_text(_SPEC.replace("{files}", _files(content)))
        settings = {**_SETTINGS, "_topdir": str(top / "top"), "tree": str(top / "tree")}
        argv = [program, "-bb", "--quiet", str(top / "holdfast.spec")]
        for name, value in settings.items():
            argv += ["--define", f"{name} {value}"]
        env = {**os.environ, "SOURCE_DATE_EPOCH": _EPOCH_S, "LC_ALL": "C"}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
        made = list((top / "top/RPMS").rglob("*.rpm"))
        if done.returncode or not made:
            raise SandboxError(f"rpmbuild: {done.stderr.strip()[-600:]}")
        shutil.copyfile(made[0], target)


def lay_out(content: Tree, folder: Path) -> None:
    """Writes the files and links below ``folder``, with the time of the package."""
    for name in content.folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, one in content.files.items():
        path = folder / name
        path.write_bytes(one)
        path.chmod(0o755 if name in content.programs else 0o644)
        os.utime(path, (int(_EPOCH_S), int(_EPOCH_S)))
    for name, to in content.links.items():
        (folder / name).symlink_to(to)
        os.utime(folder / name, (int(_EPOCH_S), int(_EPOCH_S)), follow_symlinks=False)


def _files(content: Tree) -> str:
    """The list of files: only folders of our own belong to the package."""
    own = [
        f"%dir %attr(0755, root, root) /{name}" for name in content.folders if "holdfast" in name
    ]
    links = [f"%attr(0777, root, root) /{name}" for name in content.links]
    files = [
        f"%attr({'0755' if name in content.programs else '0644'}, root, root) /{name}"
        for name in content.files
    ]
    return "\n".join([*own, *files, *links]) + "\n"
