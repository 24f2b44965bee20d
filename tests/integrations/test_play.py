"""`play` and `aplay`: an OpenAI client plays a task, and BFCL's verdict is that of `judge`."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from integration_answers import ScriptedAnswer, answers, chat_messages, valid

from fctncalling import aplay, play

ANSWERS = answers()[::4]


class OwnMessage(dict[str, Any]):
    """A message as OpenAI's client has it: fields, and a dict on request."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
        return {key: it for key, it in self.items() if it is not None or not exclude_none}


class ScriptedClient:
    """Says the messages of an answer in order, and keeps what it was asked."""

    def __init__(self, answer: ScriptedAnswer, form: str) -> None:
        self.script = chat_messages(answer, form)
        self.asked: list[dict[str, Any]] = []
        self.chat = SimpleNamespace(completions=self)

    def create(self, **asked: Any) -> Any:
        self.asked.append(asked)
        said = self.script[sum(each["role"] == "assistant" for each in asked["messages"])]
        return SimpleNamespace(choices=[SimpleNamespace(message=OwnMessage(said))])


class AsyncScriptedClient(ScriptedClient):
    """The same, awaited."""

    async def create(self, **asked: Any) -> Any:
        await asyncio.sleep(0)
        return super().create(**asked)


def test_fifty_tasks_of_eight_categories_get_the_verdicts_of_judge() -> None:
    assert (len(ANSWERS), len({each.task.category for each in ANSWERS})) == (50, 8)
    for form in ("tool_call", "prompting"):
        expected = [valid(answer, form) for answer in ANSWERS]
        assert 10 < sum(expected) < 40
        played = [play(a.task, ScriptedClient(a, form), "m", form=form) for a in ANSWERS]
        assert [each.verdict.valid for each in played] == expected

        async def together(form: str = form) -> list[Any]:
            clients = [(a.task, AsyncScriptedClient(a, form)) for a in ANSWERS]
            return await asyncio.gather(*(aplay(t, c, "m", form=form) for t, c in clients))

        assert [each.verdict.valid for each in asyncio.run(together())] == expected


def test_a_request_has_the_conversation_the_tools_and_the_sampling() -> None:
    answer = next(each for each in ANSWERS if each.task.is_multi_turn and each.kind == "right")
    client = ScriptedClient(answer, "tool_call")
    played = play(answer.task, client, "some", sampling={"temperature": 0.5})
    assert {(each["model"], each["temperature"]) for each in client.asked} == {("some", 0.5)}
    assert all(each["tools"] for each in client.asked)
    assert played.messages[: len(client.asked[-1]["messages"])] == client.asked[-1]["messages"]
    assert played.verdict.valid
    prompted = ScriptedClient(answer, "prompting")
    play(answer.task, prompted, "some", form="prompting")
    assert not any("tools" in each for each in prompted.asked)


def test_what_a_client_raises_is_raised() -> None:
    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=_broken)))
    with pytest.raises(ConnectionError, match="no route"):
        play(ANSWERS[0].task, client, "m")


def _broken(**_: Any) -> Any:
    raise ConnectionError("no route")
