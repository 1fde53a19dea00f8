"""Names of studies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo.domain.sweep import study_name_problem


@pytest.mark.parametrize("name", ["a", "lr-digits", "A.b_c-1", "_x", "1", "a.", "x" * 100])
def test_a_plain_name_can_name_a_study(name: str) -> None:
    assert study_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("", "lr-digits"),
        ("a/b", "a-b"),
        ("../../etc", "etc"),
        ("a..b", "a.b"),
        (".hidden", "hidden"),
        ("-rf", "rf"),
        ("a b", "a-b"),
        ("a\n", "a"),
        ("a\0b", "a-b"),
        ("étude", "tude"),
        ("x" * 101, "x" * 100),
        ("#%?", "lr-digits"),
        ("a\\b", "a-b"),
    ],
)
def test_any_other_name_is_refused_with_one_to_use(name: str, suggestion: str) -> None:
    problem = study_name_problem(name)
    assert problem is not None
    assert problem.endswith(f"write {suggestion}")
    assert problem.isprintable()


@given(st.text(max_size=120))
def test_a_suggested_name_can_name_a_study(name: str) -> None:
    problem = study_name_problem(name)
    if problem is not None:
        assert study_name_problem(problem.rsplit("write ", 1)[1]) is None
        assert problem.isprintable()
