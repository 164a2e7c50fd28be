"""Images made without a daemon: the OCI layout, and the same bytes from the same files."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import socket
import stat
import tarfile
from pathlib import Path

import pytest
from oci.image import Image, reference, write
from oci.layer import compressed, of_tar, write_tar


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small root: a program with setuid and two names, a link, a folder, a socket."""
    folder = tmp_path / "root"
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/su").write_text("program")
    (folder / "usr/bin/su").chmod(0o4755)
    os.link(folder / "usr/bin/su", folder / "usr/bin/other")
    (folder / "bin").symlink_to("usr/bin")
    (folder / "var/cache").mkdir(parents=True)
    (folder / "var/cache/old").write_text("not wanted")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(folder)  # a socket's path may be too long
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    return folder


def blob(archive: tarfile.TarFile, digest: str) -> bytes:
    member = archive.extractfile("blobs/sha256/" + digest.removeprefix("sha256:"))
    assert member is not None
    content = member.read()
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
    return content


def test_a_layer_is_what_the_folder_holds_without_setuid_times_and_sockets(
    root: Path, tmp_path: Path
) -> None:
    write_tar(tmp_path / "layer", root, keep=lambda name: not name.startswith("var/cache/"))
    with tarfile.open(tmp_path / "layer") as archive:
        members = {member.name: member for member in archive.getmembers()}
    assert list(members) == [
        "bin",
        "usr",
        "usr/bin",
        "usr/bin/other",
        "usr/bin/su",
        "var",
        "var/cache",
    ]
    assert stat.S_IMODE(members["usr/bin/su"].mode) == 0o755
    assert members["usr/bin/su"].isreg()
    assert members["usr/bin/other"].isreg()
    assert members["bin"].linkname == "usr/bin"
    assert {member.mtime for member in members.values()} == {0}
    assert {(member.uname, member.gname) for member in members.values()} == {("", "")}


def test_the_same_files_give_the_same_image(root: Path, tmp_path: Path) -> None:
    archives: list[tuple[str, bytes]] = []
    for name in ("first", "second"):
        os.utime(root / "usr/bin/su", (len(archives), len(archives)))
        layer = tmp_path / f"{name}.layer"
        write_tar(layer, root)
        layers = (of_tar(layer), compressed(tmp_path / f"{name}.gz", root))
        image = Image(name="example/bridge", layers=layers, config={"User": "2000:2000"})
        archives.append((write(tmp_path / name, image), (tmp_path / name).read_bytes()))
    assert archives[0] == archives[1]
    (root / "usr/bin/su").write_text("another")
    other = Image(layers=(compressed(tmp_path / "third.gz", root),))
    assert write(tmp_path / "third", other) != archives[0][0]


def test_an_archive_has_every_blob_under_its_digest(root: Path, tmp_path: Path) -> None:
    write_tar(tmp_path / "lower", root)
    layers = (of_tar(tmp_path / "lower"), compressed(tmp_path / "upper", root / "usr"))
    config = {"User": "2000:2000", "Entrypoint": ["holdfast"]}
    image = Image(name="example/bridge", layers=layers, config=config)
    digest = write(tmp_path / "image", image)
    with tarfile.open(tmp_path / "image") as archive:
        index = json.loads(archive.extractfile("index.json").read())  # type: ignore[union-attr]
        (entry,) = index["manifests"]
        assert digest == entry["digest"]
        assert entry["annotations"] == {"io.containerd.image.name": f"example/bridge@{digest}"}
        manifest = json.loads(blob(archive, entry["digest"]))
        found = json.loads(blob(archive, manifest["config"]["digest"]))
        assert found["config"] == config
        contents = [blob(archive, layer["digest"]) for layer in manifest["layers"]]
        assert contents == [layer.path.read_bytes() for layer in layers]
        kinds = [layer["mediaType"].rpartition(".")[2] for layer in manifest["layers"]]
        assert kinds == ["tar", "tar+gzip"]
        tars = [contents[0], gzip.decompress(contents[1])]
        assert found["rootfs"]["diff_ids"] == [
            f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars
        ]


def test_an_image_with_a_tag_keeps_its_name(root: Path, tmp_path: Path) -> None:
    write_tar(tmp_path / "layer", root)
    image = Image(name="example/pause:1", layers=(of_tar(tmp_path / "layer"),))
    assert reference(image.name, write(tmp_path / "image", image)) == "example/pause:1"
