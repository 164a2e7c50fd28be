"""Files that a user created cannot block, mislead or overload their reader."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import Limited, NotReadable, TooLarge

BOB = 2002
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes another user's links")


def refusal(path: Path) -> str:
    with pytest.raises(NotReadable) as refused:
        safe_file.read_bytes(path, max_bytes=100)
    assert "\n" not in str(refused.value.strerror)
    return str(refused.value.strerror)


def test_a_file_is_read_with_its_owner(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    file, size_bytes, owner = safe_file.open_regular(tmp_path / "a")
    with file:
        assert (file.read(), size_bytes, owner) == (b"text", 4, os.geteuid())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o602, 0o601])
def test_a_secret_that_others_than_its_owner_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"text")
    path.chmod(0o600)
    with safe_file.open_secret(path).file as file:
        assert file.read() == b"text"
    path.chmod(mode)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(NotReadable, match="chmod 600"):
        safe_file.open_secret(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    code = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, path.name], cwd=path.parent, check=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_pipe, "a named pipe"),
        (_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.mkdir(), "a folder"),
    ],
)
def test_a_file_that_is_not_regular_is_never_opened(
    make: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    make(tmp_path / "a")
    assert refusal(tmp_path / "a") == f"not a regular file: {message}"


def test_a_larger_file_is_refused_however_little_was_written(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 40)
    assert refusal(tmp_path / "a") == "larger than 0 KiB"


def test_a_users_own_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a").write_bytes(b"text")
    (tmp_path / "there").symlink_to("folder")
    (tmp_path / "b").symlink_to(tmp_path / "there/../there/a")
    assert safe_file.read_bytes(tmp_path / "b", max_bytes=4) == b"text"


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        safe_file.open_regular(tmp_path / "a")


@as_root
@pytest.mark.parametrize("of_folder", [False, True])
def test_root_follows_no_link_that_a_user_made(of_folder: bool, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/log").write_bytes(b"secret")
    link = tmp_path / ("folder" if of_folder else "log")
    link.symlink_to(tmp_path / ("real" if of_folder else "real/log"))
    path = link / "log" if of_folder else link
    assert safe_file.read_bytes(path, max_bytes=100) == b"secret", "root's own link"
    os.lchown(link, BOB, BOB)
    message = refusal(path)
    assert message.startswith(
        f"{link.name} is a symbolic link of uid 2002, which root does not follow"
    )


@as_root
def test_a_user_follows_any_link(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "real").write_bytes(b"text")
    (tmp_path / "log").symlink_to("real")
    os.lchown(tmp_path / "log", BOB, BOB)
    code = (
        "import os, sys; from pathlib import Path; from holdfast.adapters import safe_file; "
        "os.chdir(sys.argv[1]); os.setuid(2001); print(safe_file.read_bytes(Path('log'), max_bytes=9))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "b'text'\n", done.stderr


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        safe_file.read_bytes(tmp_path / "a", max_bytes=4)
        refusal(tmp_path / "pipe")
        list(safe_file.scan(tmp_path, most=9))
        with pytest.raises(FileNotFoundError):
            safe_file.open_regular(tmp_path / "no" / "such")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_line_without_an_end_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1000 + b"\nnext\n" + b"y" * 25)
    with (tmp_path / "a").open("rb") as file:
        assert list(safe_file.lines(file, max_line_bytes=10)) == [b"x" * 10, b"next", b"y" * 10]
    with (tmp_path / "a").open("rb") as file:
        found = list(safe_file.lines(file, max_line_bytes=10, max_bytes=1003))
    assert found == [b"x" * 10, b"ne"], "what is appended meanwhile is not read for ever"


def test_a_folder_with_too_many_entries_is_refused(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    assert len(list(safe_file.scan(tmp_path, most=5))) == 5
    with pytest.raises(NotReadable, match="more than 4 entries"):
        list(safe_file.scan(tmp_path, most=4))


def test_a_library_gets_no_more_than_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    with (tmp_path / "a").open("rb") as file:
        limited = Limited(file, 50)
        assert limited.read(30) == bytes(30)
        limited.seek(0)
        with pytest.raises(TooLarge):
            limited.read()
    with (tmp_path / "a").open("rb") as file, pytest.raises(TooLarge):
        Limited(file, 50).readline()


def test_the_error_can_be_pickled_for_a_worker() -> None:
    error = safe_file.not_readable("a reason", Path("/a"))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(again), again.strerror) == (NotReadable, "a reason")
