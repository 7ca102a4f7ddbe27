"""A checkpoint written on labels and read again; labels that others wrote are not trusted."""

from __future__ import annotations

import re

import pytest

from mulligan.environments.container import checkpoints
from mulligan.environments.container.checkpoints import ContainerCheckpoint, SavedWorkspace, read_images, tag_of


@pytest.fixture
def checkpoint():
    return ContainerCheckpoint(
        "0123abcd",
        checkpoints.created_at(1_700_000_000_123_456_789),
        "manual",
        "sha256:77",
        {"mounts": {"/a b": '/x"$HOME'}, "environment": {"K": "line\nbreak ünï"}},
        (SavedWorkspace("/a b", "/x", "ff"),),
        "a name; RUN rm -rf /",
        "description 'quoted'",
        complete=False,
        still=False,
        back="aaaa0000",
        order=1_700_000_000_123_456_789,
    )


def image(labels, *tags):
    return {"Id": "sha256:77", "Labels": labels, "RepoTags": list(tags)}


def test_labels_carry_all_of_it(checkpoint):
    labels = checkpoint.labels("box")
    assert read_images([image(labels, "localhost/mulligan:box-0123abcd")], "box") == [checkpoint]


def test_no_label_can_be_taken_for_another_instruction(checkpoint):
    for key, value in checkpoint.labels("box").items():
        assert re.fullmatch(r"[a-z.]+", key)
        assert re.fullmatch(r"[A-Za-z0-9_=:.-]+", value), key


def test_images_without_our_tag_or_with_odd_labels_are_no_checkpoints(checkpoint):
    labels = checkpoint.labels("box")
    tag = f"localhost/mulligan:{tag_of('box', checkpoint.id)}"
    assert read_images([image(labels, "localhost/mulligan:box-99999999")], "box") == []
    assert read_images([image(labels)], "box") == []
    for key in (checkpoints.DETAILS, checkpoints.REQUEST):
        for odd in ("", "%%%", "W10=", "eyJhIjoxfQ=="):
            wrong = {**labels, key: odd}
            if key == checkpoints.REQUEST and odd == "eyJhIjoxfQ==":
                continue
            assert read_images([image(wrong, tag)], "box") == []
    assert read_images([image({}, tag), image(None, tag)], "box") == []


def test_checkpoints_are_in_the_order_they_were_made(checkpoint):
    rows = []
    for number, at in (("3", 30), ("1", 10), ("2", 20)):
        each = checkpoint._replace(id=number * 8, order=at)
        rows.append(image(each.labels("box"), f"x:{tag_of('box', each.id)}"))
    assert [each.id[0] for each in read_images(rows, "box")] == ["1", "2", "3"]
