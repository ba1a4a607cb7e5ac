"""Values of others in our sentences are short, on one line, and cannot drive a terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from disco.records.errors import MOST_QUOTED, InputError, PlanError, Problem, escaped, one_line, quoted, shortened

ANY_TEXT = st.text(st.characters(codec=None))


@given(ANY_TEXT)
def test_no_control_or_mark_of_direction_is_left(text: str) -> None:
    assert not [one for one in escaped(text) if one not in "\t\n" and _drives(one)]
    assert not [one for one in one_line(text) if _drives(one)]


def _drives(character: str) -> bool:
    """Controls, surrogates, line separators, and everything that changes the direction of writing."""
    if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return True
    turns = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    return unicodedata.bidirectional(character) in turns or character in "\u200e\u200f\u061c\ufeff"


@given(st.text("abc £äµ—\\ ≤日", max_size=50))
def test_plain_text_of_any_language_stays_as_it_is(text: str) -> None:
    assert escaped(text) == one_line(text) == shortened(text) == text


def test_a_message_quotes_at_most_some_characters_of_a_value() -> None:
    error = InputError("campaign", found="x" * 10**6, expected="a name")
    assert str(error) == f"campaign: found {'x' * MOST_QUOTED}… (1,000,000 characters); expected a name"
    problem = Problem("value", "plan.yaml", "", "y" * 10**6, "a name", "Correct it.")
    assert len(str(PlanError("plan.yaml:", [problem] * 10_000))) < 50_000
    assert str(PlanError("plan.yaml:", [problem] * 150)).endswith("and 50 more")


def test_a_nested_value_is_never_spelled_out() -> None:
    bomb: list[object] = ["x"] * 9
    for _ in range(30):
        bomb = [bomb] * 9
    assert len(quoted(bomb)) <= MOST_QUOTED + 30
