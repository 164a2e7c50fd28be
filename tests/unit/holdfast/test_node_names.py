from __future__ import annotations

from holdfast.node_names import natural


def test_numbers_in_names_are_compared_as_numbers() -> None:
    names = ["b-1", "a-10", "a-9", "a-9-b", "a-9-10", "a"]
    assert sorted(names, key=natural) == ["a", "a-9", "a-9-10", "a-9-b", "a-10", "b-1"]


def test_a_digit_that_is_no_number_is_text() -> None:
    assert sorted(["a²", "a1"], key=natural) == ["a1", "a²"]
