"""Where the programs come from, tested without building them."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.kube import Binaries, binaries, programs
from testbed.kube.programs import (
    MODULE,
    PACKAGES,
    build_key,
    go_env,
    kubernetes_version,
    link_flags,
)
from testbed.kube.toolchain import GO_BIN, find_go, go_version, required_go, watched

ETCD = "#!/bin/sh\necho etcd Version: {}\n"

FAKE_GO = """\
#!/bin/sh
# Lists what it built; kubectl fails until the disk is free.
[ "$1" = build ] || exit 0
for word; do
  [ "$last" = -o ] && out=$word
  last=$word
done
echo "$last" >>{folder}/built
case $last in
  *kubectl) [ -e {folder}/disk-is-free ] || {{ echo no space left; exit 1; }} ;;
esac
echo "#!/bin/sh" >"$out"
chmod +x "$out"
"""


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def no_assets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


def test_complete_assets_are_used_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PACKAGES:
        executable(tmp_path / name, ETCD.format("3.6.4"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert binaries(tmp_path / "cache", pytest.fail) == Binaries.of(tmp_path)
    assert not (tmp_path / "cache").exists()


def test_incomplete_assets_are_refused_and_the_missing_programs_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "etcd")
    (tmp_path / "kubectl").write_text("not executable")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(
        SandboxError, match=rf"KUBEBUILDER_ASSETS={tmp_path}: kube-apiserver, kubectl is missing"
    ):
        binaries(tmp_path / "cache", pytest.fail)


@pytest.mark.parametrize("text", [ETCD.format("3.4.23"), "#!/bin/sh\nexit 1\n"])
def test_assets_with_an_etcd_that_cannot_serve_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    for name in PACKAGES:
        executable(tmp_path / name, text)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(
        SandboxError, match=r"etcd is too old or not etcd .* put 3\.5 or newer there"
    ):
        binaries(tmp_path / "cache", pytest.fail)


@pytest.mark.usefixtures("no_assets")
def test_two_parallel_calls_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk-is-free").touch()
    text = FAKE_GO.format(folder=tmp_path).replace("echo", "sleep 0.1\necho", 1)
    go = executable(tmp_path / "bin" / "go", text)
    monkeypatch.setattr(programs, "find_go", lambda *_: go)
    monkeypatch.setattr(programs, "SAY_EVERY_S", 0.05)
    messages: list[str] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        first, second = pool.map(lambda _: binaries(tmp_path, messages.append), range(2))
    assert first == second
    assert not first.missing
    assert len((tmp_path / "built").read_text().split()) == 3
    assert "waiting for another build of Kubernetes on this machine …" in messages


@pytest.mark.usefixtures("no_assets")
def test_a_cached_build_is_reused(tmp_path: Path) -> None:
    folder = tmp_path / "kube" / build_key()
    for name in PACKAGES:
        executable(folder / name)
    assert binaries(tmp_path, pytest.fail).kubectl == folder / "kubectl"


@pytest.mark.usefixtures("no_assets")
def test_a_build_continues_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = executable(tmp_path / "bin" / "go", FAKE_GO.format(folder=tmp_path))
    monkeypatch.setattr(programs, "find_go", lambda *_: go)
    messages: list[str] = []
    with pytest.raises(
        SandboxError,
        match=r"building kubectl failed \(exit status 1\): no space left; run this again",
    ):
        binaries(tmp_path, messages.append)
    (tmp_path / "disk-is-free").touch()
    assert not binaries(tmp_path, messages.append).missing
    assert (tmp_path / "built").read_text().split() == [
        PACKAGES["etcd"], PACKAGES["kubectl"], PACKAGES["kubectl"], PACKAGES["kube-apiserver"]
    ]  # fmt: skip
    assert not list((tmp_path / "kube").glob("*.part"))


def test_the_pins_cover_every_program() -> None:
    go_mod = (MODULE / "go.mod").read_text()
    tools = (MODULE / "tools.go").read_text()
    assert all(f'_ "{package}"' in tools for package in PACKAGES.values())
    major, minor, patch = kubernetes_version(go_mod)
    staging = re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ (\S+)$", go_mod, re.MULTILINE)
    assert len(staging) > 20
    assert set(staging) == {f"v0.{minor}.{patch}"}
    assert major == 1
    sums = (MODULE / "go.sum").read_text()
    assert f"k8s.io/kubernetes v{major}.{minor}.{patch} h1:" in sums


def test_the_name_of_a_build_depends_on_its_pins_and_not_on_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_text((MODULE / name).read_text())
    before = build_key()
    monkeypatch.setattr(programs, "MODULE", tmp_path)
    (tmp_path / "go.mod").write_text("// another comment\n" + (MODULE / "go.mod").read_text())
    assert build_key() == before
    (tmp_path / "go.sum").write_text("")
    assert build_key() != before
    assert re.fullmatch(r"v1\.\d+\.\d+-[0-9a-f]{12}", before)


def test_go_cannot_change_the_pins_or_download_a_toolchain() -> None:
    env = go_env({"GOFLAGS": "-mod=mod -buildvcs=false", "HOME": "/home/alice"}, None)
    assert env["GOFLAGS"] == "-buildvcs=false -mod=readonly"
    assert (env["GOTOOLCHAIN"], env["CGO_ENABLED"], env["HOME"]) == ("local", "0", "/home/alice")
    assert "GOMODCACHE" not in env
    own = go_env({}, Path("/cache/go"))
    assert (own["GOMODCACHE"], own["GOCACHE"]) == ("/cache/go/mod", "/cache/go/build")


def test_the_version_is_linked_into_clients_and_servers() -> None:
    flags = link_flags((1, 34, 2))
    assert flags.startswith("-s -w ")
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.2" in flags
    assert "-X k8s.io/client-go/pkg/version.gitVersion=v1.34.2" in flags


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.9 linux/arm64", (1, 9)),
        ("devel", None),
    ],
)
def test_the_version_of_go_is_parsed(text: str, version: tuple[int, int] | None) -> None:
    assert go_version(text) == version


def test_the_downloaded_go_is_pinned_and_new_enough() -> None:
    need = required_go((MODULE / "go.mod").read_text())
    pinned = re.search(r"go-bin==(\d+)\.(\d+)\.\d+ ", GO_BIN)
    assert pinned
    assert (int(pinned[1]), int(pinned[2])) >= need
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", GO_BIN)) == 2


def test_a_cached_go_is_used_where_the_machine_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = executable(tmp_path / "old" / "go", "#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    cached = executable(
        tmp_path / "go-bin" / "bin" / "go", "#!/bin/sh\necho go version go1.99.1 linux/amd64\n"
    )
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    assert find_go(tmp_path, (1, 90), pytest.fail) == cached


def test_a_long_step_reports_progress_and_a_failed_one_its_last_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("testbed.kube.toolchain.SAY_EVERY_S", 0.1)
    messages: list[str] = []
    assert (
        watched(
            ["sh", "-c", "echo a; echo b; sleep 0.35"], "building", messages.append, unit="packages"
        )
        == 2
    )
    assert messages
    assert messages[-1].startswith("building: 2 packages, ")
    with pytest.raises(
        SandboxError, match=r"building failed \(exit status 3\): one \| two; run this again"
    ):
        watched(["sh", "-c", "echo one; echo two >&2; exit 3"], "building", messages.append)


def test_an_interrupted_step_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("testbed.kube.toolchain.SAY_EVERY_S", 0.2)
    with pytest.raises(KeyboardInterrupt):
        watched(["sh", "-c", f"echo $$ >{pid}; exec sleep 60"], "building", interrupt)
    status = subprocess.run(
        ["kill", "-0", pid.read_text().strip()], capture_output=True, check=False
    ).returncode
    assert status != 0
