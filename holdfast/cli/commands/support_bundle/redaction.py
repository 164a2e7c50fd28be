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
    r"|(?:gh[pousr]_|glpat-|hf_|sk-|xox[abpr]-)[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}\b)"
)
_NAMED = re.compile(
    r"""(?P<name>(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|credential|"""
    r"""private[_-]?key|StoragePass)[\w.-]{0,40}["']?\s{0,4}[=:]\s{0,4})"""
    r"""(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,;}"']+)""",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(authorization\s{0,4}[:=]\s{0,4})[^\n]+", re.IGNORECASE)
_IN_URL = re.compile(r"(://[^\s/:@]{0,200}:)[^\s/@]{1,200}(?=@)")


def redacted(text: str) -> str:
    """The text without values that look secret; the names stay."""
    text = _KEY_BLOCK.sub(REMOVED, text)
    text = _HEADER.sub(rf"\1{REMOVED}", text)
    text = _IN_URL.sub(rf"\1{REMOVED}", text)
    text = _TOKEN.sub(REMOVED, text)
    return _NAMED.sub(rf"\g<name>{REMOVED}", text)
