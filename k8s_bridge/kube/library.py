"""The official client library ``kubernetes``: how requests are sent, and where credentials are found.

The only module that imports it. Its packages import all models and all API groups: 35 MiB and 0.3 s for
700 modules that the bridge never uses. The parts that it uses are modules of their own.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import UsageError
from k8s_bridge.kube import kubeconfig

CONNECTIONS_KEPT = 32
"""Connections that stay open between requests."""

_PACKAGES = ("kubernetes", "kubernetes.client", "kubernetes.client.models")
"""Their ``__init__`` imports what is not used."""
_HEADER = "authorization"
"""The header that the client library writes the token to."""


def api_client(setting: str) -> Any:
    """An ``ApiClient`` for the access of ``bridge.kubeconfig``. Does not connect.

    Raises ``UsageError`` when there is no usable access, or the library is not installed.
    """
    kubeconfig.require(setting)
    try:
        client, config = imported()
    except ImportError:
        raise UsageError(
            "the bridge needs the package kubernetes; pip install 'holdfast[bridge]'"
        ) from None
    settings = client.Configuration()
    path = kubeconfig.path_of(setting)
    try:
        if path is None:
            config.load_incluster_config(client_configuration=settings)
        else:
            config.load_kube_config(
                config_file=str(path), client_configuration=settings, persist_config=False
            )
    except Exception as error:  # noqa: BLE001 - whatever a mistake in the file leads to
        where = path or "the pod's service account"
        raise UsageError(f"{where}: {' '.join(str(error).split())[:200]}") from None
    # The bridge retries itself: it knows what may be sent twice.
    settings.retries = False
    settings.connection_pool_maxsize = CONNECTIONS_KEPT
    return client.ApiClient(settings)


def trim_token(headers: dict[str, str]) -> str:
    """Remove blanks around the token in ``headers``, as kubectl does. Returns why it cannot be sent, or
    nothing. The HTTP library would quote it in its error, which is in the log and in /readyz.
    """
    value = headers.get(_HEADER, "").strip()
    if not (value.isascii() and value.isprintable()):
        return "the token has a line break or another character that HTTP does not allow"
    if value:
        headers[_HEADER] = value
    return ""


def api_exception() -> Any:
    """The class of the errors that requests raise."""
    return importlib.import_module("kubernetes.client.exceptions").ApiException


def imported() -> tuple[Any, Any]:
    """The modules ``kubernetes.client``, with ``ApiClient`` and ``Configuration`` at least, and
    ``kubernetes.config``.
    """
    if "kubernetes" not in sys.modules:
        try:
            return _narrow()
        except (ImportError, AttributeError):  # a release whose modules are divided in another way
            for name in [name for name in sys.modules if name.split(".")[0] == "kubernetes"]:
                del sys.modules[name]
    return importlib.import_module("kubernetes.client"), importlib.import_module(
        "kubernetes.config"
    )


def _narrow() -> tuple[Any, Any]:
    """As packages whose ``__init__`` was not run; the modules in them are imported as usual."""
    spec = find_spec("kubernetes")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("kubernetes")
    root = Path(spec.submodule_search_locations[0])
    for name in _PACKAGES:
        package = ModuleType(name)
        path = [str(root.joinpath(*name.split(".")[1:]))]
        package.__path__ = path
        package.__spec__ = ModuleSpec(name, None, is_package=True)
        package.__spec__.submodule_search_locations = path
        sys.modules[name] = package
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, package)
    client: Any = sys.modules["kubernetes.client"]
    client.Configuration = importlib.import_module("kubernetes.client.configuration").Configuration
    client.ApiClient = importlib.import_module("kubernetes.client.api_client").ApiClient
    return client, importlib.import_module("kubernetes.config")
