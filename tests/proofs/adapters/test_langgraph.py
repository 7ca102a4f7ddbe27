"""The real LangGraph: each of its checkpoints has ours beside it, and going back in time brings the files back too."""

from __future__ import annotations

import asyncio
from typing import TypedDict

import pytest

import mulligan
from tree import contents, put

CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    """What the graph hands from node to node."""

    done: list[str]


@pytest.fixture
def langgraph(needs):
    return needs("langgraph.graph", "langgraph")


def compiled(langgraph, project, files):
    def step(name, text):
        def node(state):
            put(project, "a.txt", text)
            put(project, f"{name}.txt", name)
            return {"done": [*state["done"], name]}

        return node

    builder = langgraph.StateGraph(State)
    builder.add_node("one", step("one", "1"))
    builder.add_node("two", step("two", "2"))
    builder.add_node("three", step("three", "3"))
    for pair in ((langgraph.START, "one"), ("one", "two"), ("two", "three"), ("three", langgraph.END)):
        builder.add_edge(*pair)
    return builder.compile(checkpointer=files.saver)


def files_beside(ws):
    from langgraph.checkpoint.memory import InMemorySaver

    from mulligan.adapters.langgraph import FilesBeside

    return FilesBeside(InMemorySaver(), ws)


def after(graph, name):
    return next(state for state in graph.get_state_history(CONFIG) if state.values.get("done", [None])[-1:] == [name])


def test_travelling_brings_the_files_back_and_the_graph_goes_on_from_there(langgraph, ws, project):
    put(project, "a.txt", "0")
    files = files_beside(ws)
    graph = compiled(langgraph, project, files)
    graph.invoke({"done": []}, CONFIG, durability="sync")
    end = contents(project)
    earlier = after(graph, "one")
    report = files.travel(earlier.config)
    assert (project / "a.txt").read_text() == "1"
    assert not (project / "two.txt").exists()
    ws.undo()
    assert contents(project) == end
    files.travel(earlier.config)
    assert report.target == earlier.metadata["mulligan"]
    assert graph.invoke(None, earlier.config, durability="sync")["done"] == ["one", "two", "three"]
    assert contents(project) == end


def test_every_state_has_its_own_files(langgraph, ws, project):
    put(project, "a.txt", "0")
    files = files_beside(ws)
    graph = compiled(langgraph, project, files)
    graph.invoke({"done": []}, CONFIG, durability="sync")
    for name, text in (("two", "2"), ("one", "1"), ("three", "3")):
        files.travel(after(graph, name).config)
        assert (project / "a.txt").read_text() == text


def test_one_undo_takes_back_what_the_graph_did_for_one_input(langgraph, ws, project):
    put(project, "a.txt", "0")
    graph = compiled(langgraph, project, files_beside(ws))
    graph.invoke({"done": []}, CONFIG, durability="sync")
    (project / "one.txt").unlink()
    put(project, "mine.txt", "by hand")
    between = contents(project)
    graph.invoke({"done": ["again"]}, CONFIG, durability="sync")
    assert len(ws.story()) == 2
    ws.undo()
    assert contents(project) == between
    ws.undo()
    assert set(contents(project)) == {"a.txt", "mine.txt"}
    assert (project / "a.txt").read_text() == "0"


def test_the_same_with_coroutines(langgraph, ws, project):
    put(project, "a.txt", "0")
    files = files_beside(ws)
    graph = compiled(langgraph, project, files)

    async def go():
        await graph.ainvoke({"done": []}, CONFIG, durability="sync")
        earlier = after(graph, "one")
        await files.atravel(earlier.config)

    asyncio.run(go())
    assert (project / "a.txt").read_text() == "1"


def test_a_state_without_files_says_so_and_changes_nothing(langgraph, ws, project, store):
    put(project, "a.txt", "0")
    files = files_beside(ws)
    store.write_text("no directory")
    graph = compiled(langgraph, project, files)
    assert graph.invoke({"done": []}, CONFIG, durability="sync")["done"] == ["one", "two", "three"]
    assert files.recorder.troubles
    with pytest.raises(mulligan.UserError, match="No files were saved"):
        files.travel(after(graph, "one").config)
    with pytest.raises(mulligan.UserError, match="no checkpoint there"):
        files.travel({"configurable": {"thread_id": "another"}})
    assert (project / "a.txt").read_text() == "3"
