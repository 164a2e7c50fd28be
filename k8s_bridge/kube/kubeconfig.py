"""The kubeconfig: which file is used, and what is wrong with it, in one line that tells what to do.

The official client reports a mistake in it with whatever exception the mistake leads to.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.config.load import located
from holdfast.config.yaml_with_lines import LocatedValue
from holdfast.errors import ConfigError, UsageError
from holdfast.text.wording import did_you_mean

DEFAULT = Path("/etc/holdfast/kubeconfig")
IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_SETTING = "bridge.kubeconfig or KUBECONFIG"


def path_of(setting: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file to use, ``None`` for the pod's service account.

    First the setting, then ``KUBECONFIG``, then Holdfast's default path.
    """
    named = setting or environment.get("KUBECONFIG", "")
    if named:
        return Path(named)
    return DEFAULT if DEFAULT.exists() else None


def require(setting: str) -> None:
    """Raises ``UsageError``, with one line, if there is no usable access to Kubernetes.

    Several files in KUBECONFIG are merged by the client: only the syntax of each is checked.
    """
    path = path_of(setting)
    if path is None:
        if not IN_POD.exists():
            raise UsageError(
                f"no access to Kubernetes: {DEFAULT} does not exist, and this is no pod with a "
                f"service account; set {_SETTING}"
            )
        return
    files = [Path(name) for name in str(path).split(os.pathsep) if name]
    if len(files) > 1:
        for file in filter(Path.exists, files):
            _document(file)
        return
    problem = first_problem(path)
    if problem:
        raise UsageError(problem)


def first_problem(path: Path) -> str:
    """What is wrong with that kubeconfig: ``FILE:LINE: problem; remedy``. Empty: nothing found."""
    try:
        document = _document(path)
    except UsageError as error:
        return str(error)
    line, text = _problem(document, path.parent)
    return f"{path}:{line}: {text}" if text else ""


def _document(path: Path) -> LocatedValue:
    try:
        document = located(path)
    except ConfigError as error:
        line = str(error).splitlines()[0]
        remedy = f"set {_SETTING} to a kubeconfig" if "no such file" in line else "correct it"
        raise UsageError(f"{line}; {remedy}") from None
    if document is None or document.kind != "mapping":
        kind = document.kind if document else "nothing"
        raise UsageError(
            f"{path}:1: not a kubeconfig: the file holds {kind}, not a mapping with clusters, users "
            f"and contexts; set {_SETTING} to one"
        )
    return document


def _problem(document: LocatedValue, folder: Path) -> tuple[int, str]:
    """The line and the text of the first problem; an empty text for none."""
    current = document.get("current-context")
    if current is None or not current.text:
        return 1, "current-context is not set; add it, or: kubectl config use-context NAME"
    context, why = _named(document, "contexts", "context", current)
    if context is None:
        return current.line, f"current-context: {why}"
    for key, table in (("cluster", "clusters"), ("user", "users")):
        name = context.get(key)
        if name is None or not name.text:
            return context.line, f"the context {current.text!r} names no {key}; add it"
        entry, why = _named(document, table, key, name)
        if entry is None:
            return name.line, f"{key}: {why}"
        line, text = (_cluster if key == "cluster" else _user)(entry, folder)
        if text:
            return line, text
    return 0, ""


def _named(
    document: LocatedValue, table: str, key: str, name: LocatedValue
) -> tuple[LocatedValue | None, str]:
    """The entry of that name, or why there is none."""
    entries = {}
    rows = document.get(table)
    for item in rows.items() if rows else ():
        label, value = item.get("name"), item.get(key)
        if label is not None and label.text and value is not None:
            entries[label.text] = value
    found = entries.get(name.text or "")
    if found is not None:
        return found, ""
    known = ", ".join(entries) or "none"
    hint = did_you_mean(name.text or "", entries) or f"; {table} has: {known}"
    return None, f"{name.text!r} is not in {table}{hint}"


def _cluster(entry: LocatedValue, folder: Path) -> tuple[int, str]:
    server = entry.get("server")
    if server is None or not server.text:
        return entry.line, "the cluster has no server; add server: https://HOST:PORT"
    try:
        url = urlsplit(server.text)
        good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        good = False
    if not good:
        return server.line, f"server: {server.text!r} is no URL; write https://HOST:PORT"
    return _files(entry, folder, ("certificate-authority",))


def _user(entry: LocatedValue, folder: Path) -> tuple[int, str]:
    program = entry.get("exec")
    command = program.get("command") if program else None
    if program is not None and (command is None or not command.text):
        return program.line, "exec: command is not set; add the program that prints a credential"
    if command is not None and command.text and shutil.which(_from(folder, command.text)) is None:
        return command.line, f"exec: no program {command.text!r} here; install it, or use a token"
    return _files(entry, folder, ("client-certificate", "client-key", "tokenFile"))


def _files(entry: LocatedValue, folder: Path, keys: tuple[str, ...]) -> tuple[int, str]:
    for key in keys:
        value, data = entry.get(key), entry.get(f"{key}-data")
        if data is not None and not _is_base64(data.text or ""):
            return data.line, f"{key}-data is not base64; copy the whole value"
        if value is None or not value.text or data is not None:
            continue
        path = folder / value.text
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            return (
                value.line,
                f"{key}: {path} cannot be read: {why}; correct the path or its rights",
            )
    return 0, ""


def _from(folder: Path, command: str) -> str:
    """As the client finds it: relative to the kubeconfig where it names a folder, else along PATH."""
    return str(folder / command) if os.sep in command else command


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError):
        return False
