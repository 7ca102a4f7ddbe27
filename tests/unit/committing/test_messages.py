"""What a checkpoint's commit says, and that it is read again as it was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.committing.labels import Label, of_name, of_step, read_message, write_message


def read(text: str) -> Label:
    found = read_message(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("label", "subject"),
    [
        (of_step(5, "my description"), "architect:checkpoint:step-5 -- my description"),
        (of_step(3), "architect:checkpoint:step-3"),
        (of_name("implement"), "architect:checkpoint:implement"),
        (of_step(1, "two\nlines\tand a tab"), "architect:checkpoint:step-1 -- two lines and a tab"),
    ],
)
def test_the_subject_is_architects(label, subject):
    assert label.subject == subject
    assert write_message(label).split(b"\n")[0].decode() == subject


@given(st.integers(0, 10**9), st.text())
def test_any_message_of_a_step_comes_back(step, message):
    text = write_message(of_step(step, message, "packages/ä")).decode("utf-8", "surrogateescape")
    assert read(text) == of_step(step, message, "packages/ä")


@given(st.text(min_size=1), st.text())
def test_any_name_of_a_pipelines_step_comes_back(name, message):
    text = write_message(of_name(name, message)).decode("utf-8", "surrogateescape")
    assert read(text) == of_name(name, message)


def test_a_pipelines_step_called_like_a_number_has_none():
    assert read(write_message(of_name("step-2")).decode()).step is None


@pytest.mark.parametrize(
    ("text", "step", "message"),
    [
        ("architect:checkpoint:step-42 -- a message\n", 42, "a message"),
        ("architect:checkpoint:step-42 -- a -- b\n", 42, "a -- b"),
        ("architect:checkpoint:step-7", 7, ""),
        ("architect:checkpoint:implement", None, ""),
        ("architect:checkpoint:implement -- after step-9", None, "after step-9"),
        ("architect:checkpoint", None, ""),
        ("architect:checkpoint:step-1 -- a|b|c\n\nbody\n", 1, "a|b|c"),
        ("architect:checkpoint:step-1\n\nCheckpoint-Step: many\nCheckpoint-Message: not quoted", 1, ""),
    ],
)
def test_commits_of_architect_itself_are_read(text, step, message):
    found = read(text)
    assert (found.step, found.message) == (step, message)


@pytest.mark.parametrize(
    "text",
    [
        'Revert "architect:checkpoint:step-1"\n\nThis reverts commit 123.\n',
        "fix: a word on\n\narchitect:checkpoint:step-1\n",
        "architect:checkpoints are nice",
        " architect:checkpoint:step-1",
        "",
    ],
)
def test_what_only_mentions_the_prefix_is_none(text):
    assert read_message(text) is None


def test_a_trailer_in_the_middle_of_a_body_is_not_believed():
    assert read("architect:checkpoint:step-1\n\nCheckpoint-Step: 9\n\nand so on\n").step == 1
