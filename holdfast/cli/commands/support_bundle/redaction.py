"""Removes what looks like a password, key or token from text that leaves the cluster. Pure.

It knows the usual forms. Whoever sends a bundle to others reads it before.
"""

from __future__ import annotations

import re

REMOVED = "[removed]"

# Each pattern is linear in the text, which users may have written: repetitions are bounded, or begin only
# where a word begins.
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?:eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"  # RFC 7519
    r"|(?:gh[pousr]_|github_pat_|glpat-|hf_|nvapi-|sk-|xox[abpr]-)[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}\b)"
)
_NAME = (
    r"(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|credential|private[_-]?key|"
    r"StoragePass)[\w.-]{0,40}"
)
_VALUE = r"""(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,;}"']+)"""
_NAMED = re.compile(rf"""(?P<name>{_NAME}["']?\s{{0,4}}[=:]\s{{0,4}}){_VALUE}""", re.IGNORECASE)
_NAMED_INSIDE = re.compile(
    rf"""(?P<name>{_NAME}\\{{1,8}}["']\s{{0,4}}[=:]\s{{0,4}}\\{{1,8}}["'])[^\\"'\n]+""",
    re.IGNORECASE,
)
"""JSON as a text inside of JSON: the quotes have backslashes."""
_OPTION = re.compile(
    rf"""(?P<name>(?<![\w-])--?[\w-]{{0,20}}?{_NAME}(?:["']\s{{0,4}},\s{{0,4}}["']|\s{{1,4}}))(?![-/.])[^\s,;}}"']+""",
    re.IGNORECASE,
)
"""``--token abc``, as text or as two words of a list."""
_BEARER = re.compile(r"\b(bearer\s{1,4})[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_WEBHOOK = re.compile(
    r"(https://(?:hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|[\w.-]{1,100}/webhookb2/))[^\s\"'<>]+"
)
"""Who knows the address of such a webhook may post there."""
_HEADER = re.compile(r"(authorization\s{0,4}[:=]\s{0,4})[^\n]+", re.IGNORECASE)
_IN_URL = re.compile(r"(://[^\s/:@]{0,200}:)[^\s/@]{1,200}(?=@)")


def redacted(text: str) -> str:
    """The text without values that look secret; the names stay."""
    text = _KEY_BLOCK.sub(REMOVED, text)
    text = _HEADER.sub(rf"\1{REMOVED}", text)
    text = _IN_URL.sub(rf"\1{REMOVED}", text)
    text = _WEBHOOK.sub(rf"\1{REMOVED}", text)
    text = _BEARER.sub(rf"\1{REMOVED}", text)
    text = _TOKEN.sub(REMOVED, text)
    text = _NAMED_INSIDE.sub(rf"\g<name>{REMOVED}", text)
    text = _OPTION.sub(rf"\g<name>{REMOVED}", text)
    return _NAMED.sub(_without_value, text)


def _without_value(match: re.Match[str]) -> str:
    """With its quotes: JSON stays JSON."""
    quote = match["value"][0] if match["value"][0] in "\"'" else ""
    return f"{match['name']}{quote}{REMOVED}{quote}"
