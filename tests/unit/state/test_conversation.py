"""Conversations of every kind as providers of state."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import mulligan
from mulligan.state.conversation import (
    CountedProvider,
    GetAndSet,
    MessageList,
    SessionMessages,
    Transcript,
    conversation_of,
    messages_in,
    plain,
)


def become(conversation, value) -> None:
    conversation.stage(value)()


def test_whatever_holds_messages_becomes_a_conversation(tmp_path):
    assert isinstance(conversation_of([]), MessageList)
    assert isinstance(conversation_of(tmp_path / "t.jsonl"), Transcript)
    assert isinstance(conversation_of(str(tmp_path / "t.jsonl")), Transcript)
    assert isinstance(conversation_of((list, print)), GetAndSet)
    store = SimpleNamespace(get_messages=lambda session_id: [])
    assert isinstance(conversation_of(store, "s"), SessionMessages)
    provider = SimpleNamespace(capture=list, stage=lambda value: lambda: None)
    assert isinstance(conversation_of(provider), CountedProvider) and conversation_of(provider).count() == 0
    own = MessageList([])
    assert conversation_of(own) is own
    for wrong in (7, None, store, (1, 2), SimpleNamespace()):
        with pytest.raises(TypeError, match="a conversation is"):
            conversation_of(wrong)


def test_a_list_is_changed_in_place_and_messages_that_stay_are_the_same_objects():
    messages = [{"n": 1}, {"n": 2}]
    first, conversation = messages[0], MessageList(messages)
    one = conversation.capture()
    messages.append({"n": 3})
    two = conversation.capture()
    messages[1]["n"] = "edited in place"
    become(conversation, one)
    assert messages == [{"n": 1}, {"n": 2}] and messages[0] is first
    become(conversation, two)
    assert messages == [{"n": 1}, {"n": 2}, {"n": 3}] and conversation.count() == messages_in(two) == 3


def test_messages_with_tuples_are_plain_messages():
    messages = [{"n": (1, 2)}, {"n": 3}]
    conversation = MessageList(messages)
    both = conversation.capture()
    del messages[1]
    become(conversation, both)
    assert messages == [{"n": (1, 2)}, {"n": 3}]


def test_what_was_captured_does_not_change_with_the_list():
    messages = [{"n": [1]}]
    value = MessageList(messages).capture()
    messages[0]["n"].append(2)
    assert value["messages"] == [{"n": [1]}]


class Message:
    def __init__(self, text):
        self.text = text

    def to_dict(self):
        return {"text": self.text}


def test_messages_that_are_objects_go_back_and_come_forward_with_a_decoder():
    messages = [Message("a"), Message("b")]
    conversation = MessageList(messages)
    both = conversation.capture()
    one = {"count": 1, "messages": both["messages"][:1]}
    kept = messages[0]
    become(conversation, one)
    assert messages == [kept]
    with pytest.raises(mulligan.UserError, match="no decoder was given"):
        conversation.stage(both)
    messages.clear()
    with pytest.raises(mulligan.UserError, match="no decoder was given"):
        conversation.stage(both)
    become(MessageList(messages, decode=lambda value: Message(value["text"])), both)
    assert [message.text for message in messages] == ["a", "b"]


def test_a_message_that_is_not_json_is_refused_when_it_is_saved():
    with pytest.raises(TypeError, match="cannot be saved as JSON"):
        MessageList([object()]).capture()
    assert plain(SimpleNamespace(model_dump=lambda: {"a": 1})) == {"a": 1}


@pytest.mark.parametrize("value", [None, 7, [], {"messages": 3}, {}])
def test_a_value_that_is_no_conversation_is_refused_before_anything_changes(value, tmp_path):
    messages = [1]
    for conversation in (MessageList(messages), GetAndSet(lambda: messages, print), Transcript(tmp_path / "t")):
        with pytest.raises(mulligan.UserError):
            conversation.stage(value)
    assert messages == [1]


def test_a_pair_of_functions():
    held = {"messages": ["a"]}
    pair = GetAndSet(lambda: held["messages"], lambda messages: held.update(messages=messages))
    value = pair.capture()
    held["messages"] = ["a", "b"]
    assert pair.count() == 2
    become(pair, value)
    assert held == {"messages": ["a"]}
    odd = GetAndSet(lambda: {"any": "json"}, lambda state: held.update(state=state))
    become(odd, odd.capture())
    assert held["state"] == {"any": "json"}


class Store:
    """Keeps messages as a session store would; what it can do is chosen by the test."""

    def __init__(self, *messages, can=()):
        self.messages, self.calls = list(messages), []
        for name in can:
            setattr(self, name, getattr(self, f"_{name}"))

    def get_messages(self, session_id):
        return self.messages

    def _revert_to_message(self, session_id, index):
        self.calls.append(("revert", index))
        self.messages = self.messages[: index + 1]
        return True

    def _clear(self, session_id):
        self.calls.append(("clear",))
        self.messages = []

    def _add_message(self, session_id, role, content):
        self.messages.append({"role": role, "content": content})

    def _set_chat_history(self, session_id, messages):
        self.messages = list(messages)


def said(number):
    return {"role": "user", "content": str(number)}


@pytest.mark.parametrize("forward", ["add_message", "set_chat_history"])
def test_a_session_store_goes_back_and_forward(forward):
    store = Store(said(1), said(2), can=("revert_to_message", "clear", forward))
    session = SessionMessages(store, "s")
    empty, two = {"count": 0, "messages": []}, session.capture()
    store.messages.append(said(3))
    become(session, two)
    assert store.messages == [said(1), said(2)] and store.calls == [("revert", 1)]
    become(session, empty)
    assert store.messages == [] and store.calls[-1] == ("clear",)
    become(session, two)
    assert store.messages == [said(1), said(2)] and session.left == ""


def test_a_session_store_that_can_do_nothing_is_left_as_it_is_and_says_so():
    store = Store(said(1), said(2))
    session = SessionMessages(store, "s")
    become(session, {"count": 1, "messages": [said(1)]})
    assert "drop" in session.left and len(store.messages) == 2
    become(session, {"count": 3, "messages": [said(1), said(2), said(3)]})
    assert "take messages back" in session.left
    become(session, session.capture())
    assert session.left == "" and store.calls == []


def test_a_session_store_that_refuses_is_an_error():
    store = Store(said(1), said(2))
    store.revert_to_message = lambda session_id, index: False
    with pytest.raises(mulligan.UserError, match="refused"):
        become(SessionMessages(store, "s"), {"count": 1, "messages": [said(1)]})


def test_a_session_store_that_cannot_be_read_has_nothing_to_give():
    session = SessionMessages(SimpleNamespace(get_messages=lambda session_id: None), "s")
    value = session.capture()
    assert session.count() is None and messages_in(value) is None
    become(session, value)


def test_a_session_store_that_only_takes_whole_histories_goes_both_ways():
    store = Store(said(1), said(2), said(3), can=("set_chat_history",))
    session = SessionMessages(store, "s")
    three = session.capture()
    become(session, {"count": 1, "messages": [said(1)]})
    assert store.messages == [said(1)]
    become(session, three)
    assert store.messages == [said(1), said(2), said(3)]


def test_an_extended_session_is_read_too():
    store = SimpleNamespace(get_extended_session=lambda session_id: SimpleNamespace(messages=[said(1)]))
    assert conversation_of(store, "s").capture() == {"count": 1, "messages": [said(1)]}


# -- with the engine ------------------------------------------------------------------------------


def test_one_undo_brings_back_what_a_restore_dropped(ws, project):
    messages = ["u1"]
    ws.provide("conversation", conversation_of(messages))
    (project / "a").write_text("1")
    first = ws.save("first")
    messages.append("a1")
    (project / "a").write_text("2")
    ws.restore(first, what="all")
    assert messages == ["u1"] and (project / "a").read_text() == "1"
    ws.undo()
    assert messages == ["u1", "a1"] and (project / "a").read_text() == "2"
    ws.redo()
    assert messages == ["u1"] and (project / "a").read_text() == "1"
    assert ws.state_owed() is None


def test_a_restore_of_files_leaves_the_conversation(ws, project):
    messages = ["u1"]
    ws.provide("conversation", conversation_of(messages))
    first = ws.save("first")
    messages.append("a1")
    ws.restore(first)
    assert messages == ["u1", "a1"]


def test_a_handing_over_that_fails_is_owed_until_somebody_takes_it(ws, project, store):
    class Failing(MessageList):
        def stage(self, value):
            super().stage(value)

            def fail():
                raise RuntimeError("gone")

            return fail

    messages = ["u1"]
    ws.provide("conversation", Failing(messages))
    (project / "a").write_text("1")
    first = ws.save("first")
    messages.append("a1")
    (project / "a").write_text("2")
    with pytest.raises(RuntimeError, match="gone"):
        ws.restore(first, what="all")
    assert (project / "a").read_text() == "1" and ws.state_owed() == first.id
    ws.close()
    with mulligan.open(project, store=store) as later:
        assert later.state_owed() == first.id
        later.provide("conversation", conversation_of(messages))
        assert later.settle_state() and not later.settle_state()
        assert messages == ["u1"] and later.state_owed() is None
        later.undo()
        assert messages == ["u1", "a1"] and (project / "a").read_text() == "2", "one undo takes back both"


def test_what_was_said_since_is_kept_before_owed_state_is_handed_over(ws, project, store):
    messages = ["u1"]
    ws.provide("conversation", conversation_of(messages))
    (project / "a").write_text("1")
    first = ws.save("first")
    messages.append("a1")
    (project / "a").write_text("2")
    with mulligan.open(project, store=store) as terminal:
        terminal.restore(first, what="all")
    messages.append("a2")
    assert ws.settle_state() and messages == ["u1"]
    ws.undo()
    assert messages == ["u1", "a1", "a2"]


def test_what_is_owed_can_be_forgiven(ws, project):
    ws.provide("conversation", conversation_of([]))
    first = ws.save("first")
    assert ws.state_owed(forgive=True) is None
    ws.provide("other", SimpleNamespace(capture=int, stage=lambda value: lambda: 1 / 0))
    second = ws.save("second")
    with pytest.raises(ZeroDivisionError):
        ws.restore(second, what="state")
    assert ws.state_owed() == second.id and first.id != second.id
    assert ws.state_owed(forgive=True) == second.id and ws.state_owed() is None
