"""Load the configuration: YAML to frozen dataclasses. The only module that imports ``yaml``.

* All problems are reported at once, one line each: ``FILE:LINE: key.path: problem; did you mean …``.
  Line numbers come from the YAML node tree, also for a value that the dataclass itself rejects.
* A missing file means all defaults. A file that exists but cannot be read is an error.
* Ranges belong to the dataclass: a ``ValueError`` from ``__post_init__`` becomes a problem of that
  section. When its text starts with a field's name (``timeout_s must be above 0, got 0``), the line
  is that field's.

Supported types: ``str``, ``int``, ``float``, ``bool``, ``Path``, Enums (by value), ``Literal``,
``Optional``, ``tuple[T, ...]``, ``frozenset[T]``, ``dict[str, T]`` / ``Mapping[str, T]``,
dataclasses (also generic ones, ``Check[Limits]``), ``Any`` (plain YAML values), and a mapping
NAME → type for a section whose keys are a catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.config.convert import Converter, Problem
from holdfast.config.sections import SECTIONS
from holdfast.config.yaml_nodes import is_null
from holdfast.config.yaml_with_lines import LocatedValue
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from yaml import Node

T = TypeVar("T")

_MOST_LEVELS = 50


def load_section(path: Path, name: str, schema: type[T]) -> T:
    """The section ``name`` as a ``schema``. Raises ``ConfigError`` with all its problems.

    A missing section or file means its defaults. Problems of other sections are not checked, so that a
    typing error in the bridge's settings stops no agent; an unknown top-level key is always a problem.
    """
    document = YamlDocument(path, (name,))
    value = document.section(name, schema)
    document.refuse()
    return cast("T", value)


def load_top(path: Path, schema: type[T]) -> T:
    """A dataclass whose fields are top-level keys of the file; other keys are ignored."""
    document = YamlDocument(path)
    value = document.top(schema)
    document.refuse()
    return cast("T", value)


def check(path: Path, sections: Mapping[str, Any]) -> list[str]:
    """Every problem of the file, in the order of its lines. ``sections``: name → schema, as for
    ``load_section``.
    """
    document = YamlDocument(path, sections)
    for name, schema in sections.items():
        document.section(name, schema)
    return document.lines()


class Word(str):
    """``true``, ``off`` and the like, as they are written: the schema decides whether that is a truth value."""

    __slots__ = ()


def plain_sections(path: Path) -> dict[str, Any]:
    """The sections of a file without problems (``check``), as plain values and ``Word``."""
    import yaml  # noqa: PLC0415 - costs 10 ms

    class AsWritten(yaml.constructor.SafeConstructor):
        pass

    AsWritten.add_constructor("tag:yaml.org,2002:bool", lambda _, node: Word(node.value))
    document = YamlDocument(path)
    document.refuse()
    return {
        name: AsWritten().construct_object(node, deep=True) for name, node in document.nodes.items()
    }


def located(path: Path) -> LocatedValue | None:
    """The YAML document of another program. Raises ``ConfigError`` with file, line and problem.

    None: the file is empty.
    """
    document = YamlDocument(path, text="")
    text = document.read()
    if text is None:
        document.problems = document.problems or [Problem(1, "", "no such file")]
        document.refuse()
    node = document.parse(text or "")
    document.refuse()
    return LocatedValue(node) if node is not None else None


def _too_deep(yaml: Any, text: str, loader: Any) -> int | None:
    """The line in which the text exceeds the maximum nesting depth. None if no line does.

    The composer is recursive, in C: some ten thousand levels crash the process without an exception.
    The event parser is not.
    """
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MOST_LEVELS:
                return int(event.start_mark.line) + 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return None


class YamlDocument:
    """One file, read once: its text, its top-level nodes by key, and the problems found so far.

    Values of a document with problems must not be used: call ``refuse`` first.
    """

    def __init__(self, path: Path, names: Iterable[str] = (), *, text: str | None = None):
        """``text`` is parsed instead of the file, if given; ``path`` is then only used in messages."""
        self.path = path
        self.problems: list[Problem] = []
        self.convert = Converter(self.problems.append)
        self.text = self.read() if text is None else text
        """None: there is no file, or it cannot be read."""
        root = self.parse(self.text) if self.text is not None else None
        # The keys are checked by name only: the classes of other sections are not imported.
        table = dict.fromkeys((*SECTIONS, *names))
        self.nodes: dict[str, Node] = {}
        if root is not None and not is_null(root):
            self.nodes = self.convert.keys(root, "", table, what="section")

    def section(self, name: str, schema: Any) -> Any:
        """The section as ``schema``: a class, or a table NAME → type for a section with fixed keys."""
        node = self.nodes.get(name)
        return (
            self.convert.value(node, schema, name)
            if node is not None
            else self.convert.default(schema, name)
        )

    def top(self, schema: Any) -> Any:
        """As ``load_top``."""
        return self.convert.fields(self.nodes, schema, "", 1)

    def lines(self) -> list[str]:
        """The problems, one line each, in the order of the file's lines."""
        ordered = sorted(self.problems, key=lambda problem: problem.line)
        return [f"{self.path}:{p.line}: {p.key + ': ' if p.key else ''}{p.text}" for p in ordered]

    def refuse(self) -> None:
        """Raises ``ConfigError`` with every problem found so far."""
        if self.problems:
            raise ConfigError("\n".join(self.lines()))

    def read(self) -> str | None:
        """The file's text; None: there is no file, or a problem was noted."""
        try:
            return self.path.read_bytes().decode("utf-8")
        except FileNotFoundError:
            pass
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            self.problems.append(Problem(line, "", "not UTF-8 text; save the file as UTF-8"))
        except OSError as error:
            self.problems.append(Problem(1, "", f"cannot be read: {error.strerror or error}"))
        return None

    def parse(self, text: str) -> Node | None:
        """The root of the document; None: it is empty, or a problem was noted."""
        import yaml  # noqa: PLC0415 - costs 10 ms; only this module imports it

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            line = _too_deep(yaml, text, loader)
            if line is None:
                return yaml.compose(text, Loader=loader)
            self.problems.append(Problem(line, "", f"more than {_MOST_LEVELS} levels deep"))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            message = " ".join(f"{error.context or ''} {error.problem or ''}".split())
            self.problems.append(Problem(line, "", f"not valid YAML: {message}"))
        except yaml.reader.ReaderError as error:
            where = text[: error.position].count("\n") + 1 if isinstance(error.position, int) else 1
            self.problems.append(Problem(where, "", f"not valid YAML: {error.reason}"))
        except (yaml.YAMLError, RecursionError) as error:
            self.problems.append(
                Problem(1, "", f"not valid YAML: {' '.join(str(error).split())[:200]}")
            )
        return None
