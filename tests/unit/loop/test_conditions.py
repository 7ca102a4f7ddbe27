"""Variables and conditions: replaced once, compared as text, and never code."""

from __future__ import annotations

import datetime as dt

import pytest

from mulligan.loop.commands import run_shell
from mulligan.loop.conditions import as_text, for_shell, holds, is_one_comparison, names_in, resolve


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (3, "3"),
        (1.5, "1.5"),
        (True, "true"),
        (False, "false"),
        (None, ""),
        (dt.date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_values_are_spelled_as_in_yaml(value, text):
    assert as_text(value) == text
    assert resolve("<{{ x }}>", {"x": value}) == f"<{text}>"


def test_unknown_names_stay_and_values_are_not_looked_at_again():
    assert resolve("{{a}} {{ b }} {{c}} {{a}}", {"a": "{{b}}", "b": "2"}) == "{{b}} 2 {{c}} {{b}}"
    assert names_in("{{a}} {{ b }}") == ["a", "b"]


VARIABLES = {"flag": True, "off": False, "env": "prod", "n": 3, "empty": "", "tricky": "a == b", "quote": "it's"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("flag == 'true'", True),
        ("flag == 'false'", False),
        ("{{flag}} == 'true'", True),
        ("{{ flag }} == true", True),
        ("{{flag}} == 'TRUE'", True),
        ("{{flag}} != 'true'", False),
        ("{{off}} == 'false'", True),
        ("{{env}} == 'prod'", True),
        ('{{env}} == "prod"', True),
        ("{{env}} == prod", True),
        ("'{{env}}' == 'prod'", True),
        ("env == 'Prod'", False),
        ("env != 'dev'", True),
        ("{{env}}=='prod'", True),
        ("n == 3", True),
        ("{{n}} == '3.0'", False),
        ("{{empty}} == ''", True),
        ("empty != ''", False),
        ("{{unknown}} == 'true'", False),
        ("unknown == 'unknown'", True),
        ("'a == b' == 'a == b'", True),
        ("{{tricky}} == 'a == b'", True),
        ('{{quote}} == "it\'s"', True),
        ("{{tricky}}", True),
        ("'x", True),
    ],
)
def test_comparisons(condition, expected):
    assert holds(condition, VARIABLES) is expected
    assert is_one_comparison(condition)


@pytest.mark.parametrize(
    "condition", ["a == b == c", "a == 'x' and b == 'y'", "a == b or c", "a == 'x' && b", "== 'x' 'y'"]
)
def test_what_is_more_than_one_comparison_is_known(condition):
    assert not is_one_comparison(condition)


def test_an_answer_cannot_turn_a_condition_around():
    assert not holds("{{x}} == 'yes'", {"x": "' == '' or 'yes'"})
    assert not holds("'{{x}}' == 'yes'", {"x": "yes' == 'yes"})


# -- shell --------------------------------------------------------------------------------------

NASTY = [
    "plain",
    "two words",
    "*",
    "$(touch owned)",
    "`touch owned`",
    "'; touch owned; '",
    '"; touch owned; "',
    "a\nb",
    "",
    "\\",
]


@pytest.mark.parametrize("value", NASTY)
@pytest.mark.parametrize("text", ["printf '%s' {{x}}", 'printf "%s" "{{ x }}"', "printf %s '{{x}}'"])
def test_a_value_stays_one_word_in_every_kind_of_quotes(tmp_path, text, value):
    shell, values = for_shell(text, {"x": value})
    done = run_shell(shell, values, cwd=str(tmp_path))
    assert done.code == 0, done.err
    assert done.text == value
    assert list(tmp_path.iterdir()) == []


def test_the_same_variable_twice_an_unknown_one_and_none_at_all(tmp_path):
    shell, values = for_shell("printf '%s %s {{y}}' {{x}} {{x}}", {"x": 1})
    assert values == ["1"]
    assert run_shell(shell, values, cwd=str(tmp_path)).text == "1 1 {{y}}"
    assert for_shell("echo '{{.Name}}' $HOME", {"x": 1}) == ("echo '{{.Name}}' $HOME", [])


def test_odd_quotes_are_still_harmless(tmp_path):
    """Where the author's quotes are misjudged, a value may be shown oddly; it is never run."""
    for text in ("echo don\\'t {{x}}", "# don't\necho {{x}}", 'echo "$(printf %s {{x}})"', "cat <<E\n'{{x}}\nE\n"):
        shell, values = for_shell(text, {"x": "$(touch owned); touch owned"})
        run_shell(shell, values, cwd=str(tmp_path))
        assert list(tmp_path.iterdir()) == []
