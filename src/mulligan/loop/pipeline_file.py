"""
Reading a pipeline from YAML, strictly: every mistake at once, each with its line.

YAML is read as data (`safe_load`'s subset), of bounded size, without duplicate keys and without anchors that multiply.
A pipeline names commands that will be run: it is the user who names the file, and no workspace's configuration can.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from mulligan.errors import UserError
from mulligan.loop.agents import PYTHON, split_command
from mulligan.loop.conditions import is_one_comparison
from mulligan.loop.steps import PipelineConfig, PipelineStep
from mulligan.safefs.userfile import read_user_file

LARGEST = 1 << 20
MOST_ALIASES = 100
MOST_MERGED = 1000
FIELDS = ("name", "agent", "prompt", "model", "checkpoint", "condition", "output_var", "checks", "timeout")
HEADS = ("name", "steps", "variables", "agents", "description", "version")
_LONGEST_TIMEOUT = 7 * 86_400
_NAME = re.compile(r"[^\0\n\r]{1,200}")


class PipelineValidationError(UserError, ValueError):
    """The file is no pipeline; the message lists every mistake, `problems` each by itself."""

    def __init__(self, message: str, problems: Sequence[str] = (), *, hint: str = "") -> None:
        super().__init__("\n".join([message, *(f"  - {problem}" for problem in problems)]), hint=hint)
        self.problems = list(problems)


def read_pipeline(path: str | os.PathLike[str], variables: Mapping[str, Any] | None = None) -> PipelineConfig:
    """Returns the pipeline of a file; raises FileNotFoundError or PipelineValidationError."""
    place = os.fspath(path)
    data = _bytes(place)
    document, lines = parse(data, place)
    if not isinstance(document, dict):
        kind = "it is empty" if document is None else f"it must be a YAML object, not {_kind(document)}"
        raise PipelineValidationError(f"Invalid pipeline YAML: {place}: {kind}.")
    if not document.get("steps"):
        raise PipelineValidationError(f"Pipeline {place} has no steps defined.")
    problems = [*_head_problems(document, lines), *_step_problems(document["steps"], lines)]
    if problems:
        raise PipelineValidationError(f"Invalid pipeline {place}:", problems)
    stem = os.path.splitext(os.path.basename(place))[0]
    return PipelineConfig(
        name=str(document.get("name") or stem),
        steps=[_step(number, step) for number, step in enumerate(document["steps"], 1)],
        variables={
            **{str(key): value for key, value in (document.get("variables") or {}).items()},
            **(variables or {}),
        },
        agents={str(key): value.strip() for key, value in (document.get("agents") or {}).items()},
        remarks=_head_remarks(document, lines),
    )


def _bytes(place: str) -> bytes:
    try:
        data = read_user_file(place, limit=LARGEST + 1)
    except OSError as error:
        reason = error.strerror or "it is not a regular file"
        raise PipelineValidationError(f"Pipeline {place} cannot be read ({reason}).") from None
    if data is None:
        raise FileNotFoundError(f"Pipeline file not found: {place}")
    if len(data) > LARGEST:
        raise PipelineValidationError(f"Pipeline {place} is larger than {LARGEST} bytes.")
    return data


# -- YAML ---------------------------------------------------------------------------------------

Lines = dict[tuple[Any, ...], int]


def parse(data: bytes, place: str) -> tuple[Any, Lines]:
    """Returns the one document of a YAML text, and the lines its steps and their fields stand on."""
    import yaml

    loader = None
    try:
        loader = _loader_class()(data.decode("utf-8-sig"))
        node = loader.get_single_node()
        document = loader.construct_document(node) if node is not None else None
    except UnicodeDecodeError:
        raise PipelineValidationError(f"Invalid pipeline YAML: {place}: it is not UTF-8.") from None
    except RecursionError:
        raise PipelineValidationError(f"Invalid pipeline YAML: {place}: it is nested too deeply.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise PipelineValidationError(f"Invalid pipeline YAML: {place}: {_told(error)}.") from None
    finally:
        if loader is not None:
            loader.dispose()
    return document, dict(_lines(node))


def _told(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem).splitlines()[0]


def _loader_class() -> Any:
    """Returns a loader of plain YAML that refuses duplicate keys and anchors that multiply."""
    import yaml

    class Loader(yaml.SafeLoader):
        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.aliases = 0
            self.checked: set[int] = set()

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                self.aliases += 1
                if self.aliases > MOST_ALIASES:
                    raise yaml.constructor.ConstructorError(None, None, f"more than {MOST_ALIASES} aliases", None)
            return super().compose_node(parent, index)

        def flatten_mapping(self, node: Any) -> None:
            # Once for each object, as it was written: what is merged into it later may repeat its keys.
            if id(node) not in self.checked:
                self.checked.add(id(node))
                _check_keys(node)
            super().flatten_mapping(node)
            if len(node.value) > MOST_MERGED:
                raise yaml.constructor.ConstructorError(None, None, "merged keys multiply", node.start_mark)

    return Loader


def _check_keys(node: Any) -> None:
    """Refuses a key that stands twice; takes every key as text, since YAML reads `on` and `no` as truth values."""
    import yaml

    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            continue
        if key.value in seen:
            raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value!r}", key.start_mark)
        seen.add(key.value)
        key.tag = "tag:yaml.org,2002:str"


def _lines(node: Any) -> Iterator[tuple[tuple[Any, ...], int]]:
    for key, value in _pairs(node):
        yield (key.value,), key.start_mark.line + 1
        if key.value == "steps" and isinstance(value.value, list):
            for number, step in enumerate(value.value, 1):
                mark = getattr(step, "start_mark", None)
                if mark is not None:
                    yield ("steps", number), mark.line + 1
                    yield from ((("steps", number, k.value), k.start_mark.line + 1) for k, _ in _pairs(step))
        elif key.value in {"variables", "agents"}:
            yield from (((key.value, k.value), k.start_mark.line + 1) for k, _ in _pairs(value))


def _pairs(node: Any) -> Iterator[tuple[Any, Any]]:
    for pair in getattr(node, "value", None) or ():
        if isinstance(pair, tuple) and isinstance(pair[0].value, str):
            yield pair


# -- what may stand there -----------------------------------------------------------------------


def _kind(value: object) -> str:
    """Returns what something is, in one word; never the thing itself, which may be huge."""
    return type(value).__name__


def _at(lines: Lines, *where: Any) -> str:
    line = lines.get(where)
    return f" (line {line})" if line else ""


def _head_problems(document: dict[Any, Any], lines: Lines) -> Iterator[str]:
    for key in _unknown_heads(document):
        if close := _close_head(key):
            yield f"unknown field {key!r} (did you mean {close!r}?){_at(lines, key)}"
    if isinstance(document.get("name"), dict | list):
        yield f"name must be text, not {_kind(document['name'])}{_at(lines, 'name')}"
    for key, allowed in (("variables", "name: value"), ("agents", "name: command line")):
        if document.get(key) is not None and not isinstance(document[key], dict):
            yield f"{key} must be a YAML object ({allowed}), not {_kind(document[key])}{_at(lines, key)}"
    for name, value in _items(document.get("variables")):
        if not (value is None or isinstance(value, str | int | float | dt.date)):
            yield f"variable {name!r} must be text, a number, or true or false, not {_kind(value)}{_at(lines, 'variables', name)}"
    for name, value in _items(document.get("agents")):
        if problem := _agent_problem(value):
            yield f"agent {name!r} {problem}{_at(lines, 'agents', name)}"


def _unknown_heads(document: dict[Any, Any]) -> list[str]:
    """Returns the keys at the top that mean nothing here; `x-…` and `.…` hold what anchors refer to."""
    return [str(key) for key in document if key not in HEADS and not str(key).startswith(("x-", "."))]


def _close_head(key: str) -> str:
    return next(iter(get_close_matches(key, HEADS, n=1, cutoff=0.75)), "")


def _head_remarks(document: dict[Any, Any], lines: Lines) -> list[str]:
    """Returns the remarks about the keys of other tools, which are left alone."""
    known = ", ".join(HEADS)
    return [f"unknown field {key!r} is ignored (known: {known}){_at(lines, key)}" for key in _unknown_heads(document)]


def _items(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(name), each) for name, each in value.items())


def _agent_problem(value: object) -> str:
    if not isinstance(value, str):
        return f"must be a command line, not {_kind(value)}"
    if value.startswith(PYTHON):
        return "" if value.removeprefix(PYTHON).partition(":")[2] else "must be python:package.module:function"
    try:
        split_command(value)
    except ValueError as error:
        return f"is no command line: {error}"
    return ""


def _step_problems(steps: object, lines: Lines) -> Iterator[str]:
    if not isinstance(steps, list):
        yield f"steps must be a list, not {_kind(steps)}{_at(lines, 'steps')}"
        return
    for number, step in enumerate(steps, 1):
        name = step.get("name") if isinstance(step, dict) else None
        where = f"step {number}{f' {name!r}' if isinstance(name, str) else ''}{_at(lines, 'steps', number)}"
        if not isinstance(step, dict):
            yield f"{where}: must be a YAML object, not {_kind(step)}"
            continue
        for field in step:
            if field not in FIELDS:
                yield f"{where}: unknown field {str(field)!r}{_guess(str(field))}{_at(lines, 'steps', number, field)}"
        for field, problem in _field_problems(step):
            yield f"{where}: {problem}{_at(lines, 'steps', number, field)}"


def _guess(field: str) -> str:
    close = ["prompt"] if field == "task" else get_close_matches(field, FIELDS, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _field_problems(step: dict[Any, Any]) -> Iterator[tuple[str, str]]:
    prompt = step.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        yield "prompt", f"'prompt' must be text, not {_kind(prompt)}"
    elif not (prompt or "").strip():
        told = "missing 'prompt' (the 'task' field is not valid, use 'prompt')" if "task" in step else None
        yield "prompt", told or "missing 'prompt' or it is empty"
    for field in ("name", "agent", "model", "output_var"):
        value = step.get(field)
        number = isinstance(value, int | float) and not isinstance(value, bool) and field in {"name", "model"}
        if value is not None and not number and not (isinstance(value, str) and _NAME.fullmatch(value.strip())):
            quotes = f" (YAML takes it for {str(value).lower()}: put it in quotes)" if isinstance(value, bool) else ""
            yield field, f"{field!r} must be text on one line{quotes}"
    if not isinstance(step.get("checkpoint", False), bool):
        yield "checkpoint", "'checkpoint' must be true or false"
    yield from _condition_problems(step.get("condition"))
    if not _is_checks(step.get("checks")):
        yield "checks", "'checks' must be a command or a list of commands"
    if not _is_timeout(step.get("timeout")):
        yield "timeout", "'timeout' must be a number of seconds, more than 0 and at most a week"


def _condition_problems(condition: object) -> Iterator[tuple[str, str]]:
    if not (condition is None or isinstance(condition, str | int | float)):
        yield "condition", f"'condition' must be text, not {_kind(condition)}"
    elif isinstance(condition, str) and not is_one_comparison(condition):
        yield "condition", "'condition' can hold one comparison with == or !=, without 'and' or 'or'"


def _is_checks(value: object) -> bool:
    commands = [value] if isinstance(value, str) else [] if value is None else value
    return isinstance(commands, list) and all(
        isinstance(each, str) and each.strip() and "\0" not in each for each in commands
    )


def _is_timeout(value: object) -> bool:
    if value is None:
        return True
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and math.isfinite(value) and 0 < value <= _LONGEST_TIMEOUT  # type: ignore[operator, arg-type]


def _step(number: int, step: dict[str, Any]) -> PipelineStep:
    checks, condition = step.get("checks") or [], step.get("condition")
    model, name = step.get("model"), step.get("name")
    return PipelineStep(
        name=str(name).strip() if name is not None else f"step-{number}",
        agent=(step.get("agent") or "build").strip(),
        prompt=step["prompt"],
        model=None if model is None else str(model),
        checkpoint=step.get("checkpoint", False),
        condition=condition if condition is None or isinstance(condition, str) else str(condition).lower(),
        output_var=step.get("output_var"),
        checks=[checks] if isinstance(checks, str) else list(checks),
        timeout=step.get("timeout"),
    )
