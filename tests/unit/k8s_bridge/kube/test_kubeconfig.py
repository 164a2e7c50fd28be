"""A mistake in the kubeconfig: one line with file, line, value and remedy; exit status 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from k8s_bridge.kube import kubeconfig
from k8s_bridge.main import main

GOOD = """\
apiVersion: v1
kind: Config
current-context: prod
contexts:
  - name: prod
    context: {cluster: prod, user: bridge}
clusters:
  - name: prod
    cluster:
      server: https://127.0.0.1:6443
      certificate-authority: ca.crt
users:
  - name: bridge
    user:
      tokenFile: token
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_text("x")
    (tmp_path / "token").write_text("x")
    path = tmp_path / "kubeconfig"
    path.write_text(GOOD)
    return path


def test_a_complete_file_has_no_problem_also_as_json(file: Path) -> None:
    assert kubeconfig.first_problem(file) == ""
    document = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}],
        "clusters": [{"name": "b", "cluster": {"server": "https://[::1]:6443"}}],
        "users": [{"name": "c", "user": {"token": "x"}}],
    }
    file.write_text(json.dumps(document))
    assert kubeconfig.first_problem(file) == ""


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("kind: Config", "kind: [Config", 3, ("not valid YAML", "correct it")),
        ("current-context: prod", "", 1, ("current-context is not set", "use-context")),
        ("current-context: prod", "current-context: prot", 3, ("'prot'", "did you mean 'prod'?")),
        ("{cluster: prod,", "{cluster: xyz,", 6, ("cluster: 'xyz'", "clusters has: prod")),
        ("user: bridge}", "user: bridg}", 6, ("'bridg'", "did you mean 'bridge'?")),
        (
            "server: https://127.0.0.1:6443",
            "insecure: true",
            10,
            ("no server", "https://HOST:PORT"),
        ),
        ("https://127.0.0.1:6443", "127.0.0.1:6443", 10, ("'127.0.0.1:6443'", "https://HOST:PORT")),
        ("https://127.0.0.1:6443", "https://h:99999", 10, ("'https://h:99999'", "no URL")),
        ("ca.crt", "gone.crt", 11, ("gone.crt cannot be read: no such file",)),
        ("certificate-authority: ca.crt", "certificate-authority-data: '?'", 11, ("not base64",)),
        ("tokenFile: token", "tokenFile: gone", 15, ("tokenFile", "gone cannot be read")),
        (
            "tokenFile: token",
            "exec: {command: no-such-program}",
            15,
            ("no-such-program", "install"),
        ),
        (GOOD, "just text", 1, ("not a kubeconfig: the file holds text",)),
        (GOOD, "", 1, ("the file holds nothing",)),
    ],
)
def test_each_mistake_is_one_line_and_exit_status_2(
    file: Path,
    old: str,
    new: str,
    line: int,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    config = file.with_name("holdfast.yaml")
    config.write_text(f"bridge: {{kubeconfig: {file}}}\n")
    assert main(["--config", str(config)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith(f"holdfast bridge: {file}:{line}: ")
    assert all(word in err for word in words), err


def test_bytes_that_are_no_text(file: Path) -> None:
    file.write_bytes(b"a: 1\nb: \xff\n")
    assert f"{file}:2: not UTF-8 text" in kubeconfig.first_problem(file)


def test_no_access_at_all_and_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "DEFAULT", tmp_path / "default")
    monkeypatch.setattr(kubeconfig, "IN_POD", tmp_path / "token")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(UsageError, match=r"no access to Kubernetes: .*set bridge\.kubeconfig or"):
        kubeconfig.require("")
    (tmp_path / "token").touch()
    kubeconfig.require("")
    with pytest.raises(UsageError, match=r"gone:1: no such file; set bridge\.kubeconfig or"):
        kubeconfig.require(str(tmp_path / "gone"))
    with pytest.raises(UsageError, match=r"cannot be read: Is a directory"):
        kubeconfig.require(str(tmp_path))


def test_several_files_are_checked_for_syntax(file: Path) -> None:
    other = file.with_name("other")
    other.write_text("a: [")
    kubeconfig.require(f"{file}:{file.with_name('gone')}")
    with pytest.raises(UsageError, match=r"other:[0-9]+: not valid YAML"):
        kubeconfig.require(f"{file}:{other}")
