from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.slurm.hostlist import compress, expand

NAMES = st.from_regex(r"[a-z]{1,4}-?[0-9]{0,4}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("worker-0", ["worker-0"]),
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("a1,b[2-3],c", ["a1", "b2", "b3", "c"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("n[1]-ib", ["n1-ib"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["n[1", "n1]", "n[1-]", "n[2-1]", "n[a-b]", "n[]", ",", "a,,b", "n[0-99999999]", "n[[1]]"],
)
def test_an_invalid_hostlist_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="hostlist"):
        expand(text)


@settings(max_examples=200, deadline=None)
@given(st.sets(NAMES, max_size=30))
def test_compressed_names_expand_to_the_same_set(names: set[str]) -> None:
    found = expand(compress(names))
    assert set(found) == names
    assert len(found) == len(names)


def test_leading_zeros_are_kept_apart() -> None:
    assert set(expand(compress(["n1", "n01", "n001", "n10"]))) == {"n1", "n01", "n001", "n10"}


def test_ten_thousand_names_fit_one_argument() -> None:
    names = [f"worker-{number}" for number in range(10_000)]
    assert compress(names) == "worker-[0-9999]"
