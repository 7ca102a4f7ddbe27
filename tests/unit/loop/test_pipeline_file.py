"""Pipelines from YAML: every mistake at once with its line, and no file that takes the machine down."""

from __future__ import annotations

import os

import pytest

from mulligan.errors import UserError
from mulligan.loop.pipeline_file import LARGEST, PipelineValidationError, read_pipeline


@pytest.fixture
def written(tmp_path):
    def write(text: str | bytes, name: str = "pipe.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def problems(path) -> list[str]:
    with pytest.raises(PipelineValidationError) as caught:
        read_pipeline(path)
    return str(caught.value).split("\n")


def test_defaults_names_and_types(written):
    config = read_pipeline(
        written("steps:\n  - prompt: a\n  - {name: b, prompt: c, checks: 'true', timeout: 1.5, checkpoint: true}\n")
    )
    first, second = config.steps
    assert (config.name, first.name, first.agent, first.checks, first.checkpoint) == (
        "pipe",
        "step-1",
        "build",
        [],
        False,
    )
    assert (second.checks, second.timeout, second.checkpoint) == (["true"], 1.5, True)
    assert (first.model, first.condition, first.output_var, first.timeout) == (None, None, None, None)


def test_variables_of_every_plain_type_and_the_callers_win(written):
    path = written("variables: {a: 1, b: true, c: 1.5, d: text, e: null, f: 2026-01-02}\nsteps: [{prompt: x}]\n")
    config = read_pipeline(path, {"a": "2", "z": "new"})
    assert config.variables["a"] == "2" and config.variables["z"] == "new"
    assert (config.variables["b"], config.variables["c"], config.variables["e"]) == (True, 1.5, None)


def test_a_condition_that_yaml_reads_as_a_truth_value(written):
    config = read_pipeline(
        written("steps: [{prompt: x, condition: true}, {prompt: x, condition: no}, {prompt: x, condition: 0}]")
    )
    assert [step.condition for step in config.steps] == ["true", "false", "0"]


def test_agents_are_command_lines_or_factories(written):
    config = read_pipeline(
        written("agents: {build: 'claude -p {prompt}', test: 'python:pkg.mod:make'}\nsteps: [{prompt: x}]")
    )
    assert config.agents == {"build": "claude -p {prompt}", "test": "python:pkg.mod:make"}


def test_every_mistake_is_reported_at_once_with_its_line(written):
    path = written(
        """\
name: broken
varaibles: {a: 1}
agents:
  build: "unclosed 'quote"
  odd: [1]
  empty: ""
steps:
  - just text
  - task: do it
  - name: c
    prompt: "   "
    checkpont: true
    timeout: -3
    checks: [1, 2]
  - prompt: x
    checkpoint: "yes"
    condition: "a == b and c == d"
    timeout: true
    agent: [1]
    output_var: "two\\nlines"
  - prompt: 5
  - prompt: ok
    zebra: 1
"""
    )
    found = problems(path)
    assert found[0] == f"Invalid pipeline {path}:"
    assert [line.removeprefix("  - ") for line in found[1:]] == [
        "unknown field 'varaibles' (did you mean 'variables'?) (line 2)",
        "agent 'build' is no command line: No closing quotation (line 4)",
        "agent 'odd' must be a command line, not list (line 5)",
        "agent 'empty' is no command line: it is empty (line 6)",
        "step 1 (line 8): must be a YAML object, not str",
        "step 2 (line 9): unknown field 'task' (did you mean 'prompt'?) (line 9)",
        "step 2 (line 9): missing 'prompt' (the 'task' field is not valid, use 'prompt')",
        "step 3 'c' (line 10): unknown field 'checkpont' (did you mean 'checkpoint'?) (line 12)",
        "step 3 'c' (line 10): missing 'prompt' or it is empty (line 11)",
        "step 3 'c' (line 10): 'checks' must be a command or a list of commands (line 14)",
        "step 3 'c' (line 10): 'timeout' must be a number of seconds, more than 0 and at most a week (line 13)",
        "step 4 (line 15): 'agent' must be text on one line (line 19)",
        "step 4 (line 15): 'output_var' must be text on one line (line 20)",
        "step 4 (line 15): 'checkpoint' must be true or false (line 16)",
        "step 4 (line 15): 'condition' can hold one comparison with == or !=, without 'and' or 'or' (line 17)",
        "step 4 (line 15): 'timeout' must be a number of seconds, more than 0 and at most a week (line 18)",
        "step 5 (line 21): 'prompt' must be text, not int (line 21)",
        "step 6 (line 22): unknown field 'zebra' (line 23)",
    ]


def test_a_name_that_yaml_takes_for_a_truth_value_is_explained(written):
    assert "YAML takes it for false: put it in quotes" in problems(written("steps: [{name: no, prompt: x}]"))[1]


def test_fields_of_other_tools_at_the_top_are_left_alone(written):
    assert read_pipeline(written("description: x\nversion: 1\nowner: me\nsteps: [{prompt: x}]")).name == "pipe"


@pytest.mark.parametrize("text", ["", "# only a comment", "---\n"])
def test_an_empty_file_is_no_pipeline(written, text):
    assert "Invalid pipeline YAML" in problems(written(text))[0]


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "5"])
def test_what_is_no_object_is_no_pipeline(written, text):
    assert "Invalid pipeline YAML" in problems(written(text))[0]


@pytest.mark.parametrize("text", ["name: x\n", "steps: []\n", "steps:\n"])
def test_no_steps(written, text):
    assert problems(written(text))[0].endswith("has no steps defined.")


def test_steps_that_are_no_list_and_variables_that_are_no_object(written):
    found = problems(written("variables: [1]\nagents: 3\nname: {a: 1}\nsteps: {a: b}\n"))
    assert len(found) == 5
    assert "variable 'v' must be" in problems(written("variables: {v: [1]}\nsteps: [{prompt: x}]"))[1]


def test_duplicate_keys_are_a_mistake_and_not_the_last_wins(written):
    assert problems(written("steps:\n  - prompt: a\n    prompt: b\n"))[0].endswith("duplicate key 'prompt' (line 3).")


def test_a_missing_file_keeps_its_own_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="Pipeline file not found: "):
        read_pipeline(tmp_path / "none.yaml")


def test_the_error_is_a_value_error_and_ours(written):
    with pytest.raises(ValueError, match="Invalid"):
        read_pipeline(written(""))
    assert issubclass(PipelineValidationError, UserError)


# -- hostile files ------------------------------------------------------------------------------


def test_python_objects_are_not_made(written):
    assert "Invalid pipeline YAML" in problems(written("steps: !!python/object/apply:os.system ['touch owned']"))[0]


def test_a_billion_laughs_end_early(written):
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert "aliases" in problems(written(text + "steps: *a11\n"))[0]
    # Few enough aliases to pass: nothing of it is ever spelled out.
    few = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
    assert len("".join(problems(written(few + "steps: *a29\n")))) < 1000


def test_merged_keys_that_multiply_end_early(written):
    text = "a0: &a0 {" + ", ".join(f"k{n}: 1" for n in range(10)) + "}\n"
    text += "".join(f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
    assert "multiply" in problems(written(text + "steps: [{prompt: x}]\n"))[0]


def test_merging_keys_is_fine_where_people_do_it(written):
    config = read_pipeline(
        written(
            "base: &base {agent: test, timeout: 5}\nsteps:\n  - {<<: *base, prompt: a}\n  - {<<: *base, prompt: b}\n"
        )
    )
    assert [(step.agent, step.timeout) for step in config.steps] == [("test", 5), ("test", 5)]


def test_a_merged_key_may_be_overridden_also_in_what_is_merged_again(written):
    text = "x: {y: {z: {w: &b {<<: &a {agent: one, model: m}, agent: two}}}}\nsteps: [{<<: *b, prompt: p}, {<<: *b, agent: three, prompt: p}]"
    assert [(step.agent, step.model) for step in read_pipeline(written(text)).steps] == [("two", "m"), ("three", "m")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"steps: [\xff]", "not UTF-8"),
        (b"#" + b"x" * LARGEST, "larger than"),
        (b"a: b: c", "line 1"),
        (b"steps: [{prompt: x}]\n---\nsteps: []", "Invalid pipeline YAML"),
        (b"steps: &a [*a]", "must be a YAML object"),
        (b"\x00", "Invalid pipeline YAML"),
        (b"? [a, b]\n: x\nsteps: [{prompt: x, [1]: 2}]", "Invalid pipeline"),
    ],
)
def test_odd_bytes_are_one_clear_error(written, data, said):
    assert said in "\n".join(problems(written(data)))


def test_a_byte_order_mark_is_no_mistake(written):
    assert len(read_pipeline(written(b"\xef\xbb\xbfsteps: [{prompt: x}]")).steps) == 1


def test_a_fifo_or_a_directory_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "fifo.yaml")
    for path in (tmp_path / "fifo.yaml", tmp_path):
        assert "cannot be read" in problems(path)[0]
