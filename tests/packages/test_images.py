"""The images, built without a daemon: the same bytes twice, no root, and the bridge starts in what is built."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from oci.image import Image, write
from oci.layer import compressed
from packages.images import base, bridge
from packages.images.labels import labels
from testbed.paths import TREE, cache
from testbed.rootfs import roots

from holdfast.version import VERSION
from k8s_bridge.render.pod import DEPLOYMENT
from tests.packages.root import Root


def blobs(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as read:
        return {one.name: _content(read, one) for one in read.getmembers()}


def _content(read: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = read.extractfile(member)
    assert opened is not None
    return opened.read()


def parts(archive: Path) -> tuple[Any, Any, list[bytes]]:
    """Manifest, configuration and layers (as tars); every digest is right."""
    files = blobs(archive)
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name.rpartition("/")[2] == hashlib.sha256(content).hexdigest()

    def blob(entry: Any) -> bytes:
        found = files[f"blobs/{entry['digest'].replace(':', '/')}"]
        assert len(found) == entry["size"]
        return found

    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    layers = [gzip.decompress(blob(one)) for one in manifest["layers"]]
    plain = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]
    assert config["rootfs"]["diff_ids"] == plain
    return manifest, config, layers


def members(layer: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as read:
        return {one.name: one for one in read.getmembers()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small root: a setuid program, a hard link, a socket's place, and files of the machine."""
    root = tmp_path / "root"
    for name in ("usr/bin/su", "var/cache/x", "etc/hostname", "usr/share/doc/p/README", "b", "a"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / "usr/bin/su").chmod(0o4755)
    os.link(root / "usr/bin/su", root / "usr/bin/other")
    (root / "link").symlink_to("a")
    return root


def test_an_image_has_no_setuid_programs_and_nothing_of_the_machine(
    tree: Path, tmp_path: Path
) -> None:
    layer = compressed(tmp_path / "layer", tree, base.keep)
    image = Image(layers=(layer,), labels=labels("x", "y"), config={"User": "1:1"})
    write(tmp_path / "image", image)
    manifest, config, (tar,) = parts(tmp_path / "image")
    assert config["config"]["User"] == "1:1"
    assert manifest["annotations"]["org.opencontainers.image.version"] == VERSION
    assert config["config"]["Labels"] == manifest["annotations"]
    found = members(tar)
    assert list(found) == [
        *("a", "b", "etc", "link", "usr", "usr/bin", "usr/bin/other", "usr/bin/su", "usr/share"),
        *("usr/share/doc", "var", "var/cache"),
    ]
    assert found["usr/bin/su"].mode == found["usr/bin/other"].mode == 0o755
    assert found["usr/bin/other"].isreg()
    assert {one.mtime for one in found.values()} == {0}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    if os.geteuid() != 0:
        pytest.skip("needs root: the files of an image belong to root")
    if not roots.is_built("24.11", cache()):
        pytest.skip("no root of Slurm 24.11 in the cache: run scripts/sandbox up once")
    return Root(lower=cache() / "roots/24.11", folder=tmp_path)


def test_the_bridges_layer_is_reproducible_and_starts_as_its_user(root: Root) -> None:
    for name in ("one", "two"):
        bridge.install(root.lower, root.packages / name, cache())
    assert contents(root.packages / "one") == contents(root.packages / "two")
    # What the image's user sees: this layer over the root, and no way to write.
    uid = DEPLOYMENT.values["uid"].default
    said = root.run(
        f"cp -a /mnt/one/{bridge.HOME} /opt/ && cp /mnt/one/etc/* /etc/\n"
        f"as='setpriv --reuid {uid} --regid {uid} --clear-groups --no-new-privs'\n"
        f"PATH=/{bridge.HOME}/bin:$PATH\n"
        "$as holdfast --version\n"
        "$as id -un\n"
        "$as python -I -c 'import kubernetes, rich, k8s_bridge.endpoints.otlp; print(1)'\n"
        # Up to the point where it needs a cluster.
        "$as holdfast bridge --plan 2>&1 || echo status $?\n"
        f"touch /{bridge.HOME}/x && rm /{bridge.HOME}/x\n"
        f"$as touch /{bridge.HOME}/x 2>&1 || echo read-only for it\n"
        f"cat /{bridge.SBOM}"
    )
    assert said.startswith(f"holdfast {VERSION}\nholdfast\n1\n")
    assert "no access to Kubernetes: /etc/holdfast/kubeconfig does not exist" in said
    assert "read-only for it" in said
    purls = {one["purl"] for one in json.loads(said[said.index("{\n") :])["components"]}
    # The lock's markers leave out what this Python does not need.
    locked = {pin.split("==")[0] for pin in re.findall(r"^\S+==\S+ \\$", lock(), re.MULTILINE)}
    packages = {url.split("@")[0].rpartition("/")[2] for url in purls if "/pypi/" in f"/{url[4:]}"}
    assert locked <= packages, "each unconditional pin of the lock is in the bill of materials"
    assert any(url.startswith("pkg:deb/debian/slurm-client@") for url in purls)


def contents(folder: Path) -> dict[str, str]:
    """Name → digest of each file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def lock() -> str:
    return (TREE / "images/bridge/requirements.lock").read_text()
