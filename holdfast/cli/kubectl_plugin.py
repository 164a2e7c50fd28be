"""``kubectl holdfast``: Holdfast's commands where only kubectl is at hand.

kubectl runs a program ``kubectl-NAME`` on PATH as ``kubectl NAME``. This one runs ``holdfast`` in the bridge's
pod, which has Slurm's commands, the configuration and both sides' rights; ``page`` opens a way to the status
page. kubectl decides who may: the user needs the right to exec or to forward a port in that namespace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from holdfast.cli.console import complain, say

NAMESPACE = "holdfast"
TARGET = "deploy/holdfast-bridge"
PAGE_PORT = 9647

USAGE = f"""\
usage: kubectl holdfast [-n NAMESPACE] [--context NAME] [--kubeconfig FILE] COMMAND …

Runs a command of Holdfast in the bridge's pod (default namespace: {NAMESPACE}).

  kubectl holdfast status
  kubectl holdfast explain computeinstance-7      both sides of one node
  kubectl holdfast bridge --plan                  the changes that are pending
  kubectl holdfast page [PORT]                    the status page, at http://localhost:{PAGE_PORT}

exit status: that of the command; 2 usage error, or kubectl is missing
"""

_WITH_VALUE = ("-n", "--namespace", "--context", "--kubeconfig", "--cluster", "--user")


def main(argv: Sequence[str] | None = None) -> int:
    """The program ``kubectl-holdfast``."""
    words = list(sys.argv[1:] if argv is None else argv)
    options, rest = split(words)
    if not rest or rest[0] in ("-h", "--help", "help"):
        say(USAGE)
        return 0 if rest else 2
    if rest[0] == "page" and (len(rest) > 2 or not all(map(str.isdigit, rest[1:]))):
        complain("kubectl holdfast: page takes one port: kubectl holdfast page 9647")
        return 2
    try:
        os.execvp("kubectl", command(options, rest, terminal=sys.stdout.isatty()))  # noqa: S606, S607
    except OSError as error:
        complain(f"kubectl holdfast: kubectl: {error.strerror or error}")
        return 2


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """kubectl's own options at the beginning, and the command."""
    options: list[str] = []
    rest = list(words)
    while rest:
        if rest[0] in _WITH_VALUE and len(rest) > 1:
            options += rest[:2]
            rest = rest[2:]
        elif rest[0].startswith(tuple(f"{name}=" for name in _WITH_VALUE if name[1] == "-")):
            options.append(rest.pop(0))
        else:
            break
    return options, rest


def command(options: Sequence[str], words: Sequence[str], *, terminal: bool) -> list[str]:
    """The command line of kubectl."""
    named = any(
        word in ("-n", "--namespace") or word.startswith("--namespace=") for word in options
    )
    where = [*options, *([] if named else ["-n", NAMESPACE])]
    if words[0] == "page":
        port = words[1] if len(words) > 1 else str(PAGE_PORT)
        return ["kubectl", *where, "port-forward", TARGET, f"{port}:{PAGE_PORT}"]
    tty = ["-t"] if terminal else []
    return ["kubectl", *where, "exec", "-i", *tty, TARGET, "--", "holdfast", *words]


if __name__ == "__main__":
    sys.exit(main())
