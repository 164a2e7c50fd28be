"""Renders the templates of ``holdfast render``. The only module that imports jinja2.

Hooks, agent and launcher never import this module: they start often, and they must start where
nothing but the standard library works.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from holdfast.version import VERSION

_JSON_BUT_NOT_YAML = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\x7f")


def render(package: str, template: str, values: Mapping[str, object]) -> str:
    """The text of ``template``, a file below the folder ``templates`` of ``package``.

    Templates also know ``version``, that of Holdfast: manifests have it as a label.

    Raises ``jinja2.TemplateError`` for a template that does not exist or names an unknown value.
    """
    return _environment(package).get_template(template).render(values)


@functools.cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        autoescape=select_autoescape(("html", "html.j2")),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version"] = VERSION
    environment.filters["toyaml"] = to_yaml
    environment.filters["roff"] = to_roff
    return environment


def to_roff(value: object) -> str:
    """``value`` as text of a manual page (groff_char(7)): nothing in it is a request or an escape."""
    text = str(value).replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)
    return "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)


def to_yaml(value: object) -> str:
    """``value`` in YAML's flow style, with every text in double quotes.

    JSON is YAML, with two exceptions: YAML has no surrogate pairs, and no DEL as it is. jinja2's own
    ``tojson`` is made for HTML: it also escapes <, >, & and the apostrophe.
    """
    return _JSON_BUT_NOT_YAML.sub(_escaped, json.dumps(value))


def _escaped(match: re.Match[str]) -> str:
    character = json.loads(f'"{match[0]}"')
    return f"\\U{ord(character):08x}"
