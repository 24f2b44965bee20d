"""Calls that an agent sends back stand in the next prompt as the very ids that were sampled."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from gateways import TOOL, TokenScript
from tiny_models import CHATML, tiny_tokenizer

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.data.types import Call
from fctncalling.envs.handlers import get_handler
from fctncalling.lab.gateway.completion_request import chat_request
from fctncalling.lab.gateway.gateway import Gateway, GatewaySettings
from fctncalling.lab.gateway.gateway_session import GatewaySession
from fctncalling.lab.gateway.sampler import Sampler

UNMERGED = ("name", "ar", "gu", "call", "fu", '":', "Ġ", "tool", "a=", "),")
TEMPLATE = ChatTemplate(tiny_tokenizer(CHATML, UNMERGED))
HANDLER_NAMES = (
    *("hermes_calls", "python_calls", "llama_json_calls"),
    *("qwen_xml_calls", "kimi_k2_calls", "mistral_calls"),
)
LETTERS = "aZ0 _'\"\\/\n\t{}[]()<>:,;é漢字🙂\u2028ß\u0301"
EPISODES = 1000


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(12)))


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(7 if depth < 2 else 5)
    if kind == 5:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 6:
        return {random_text(rng): random_value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return [random_text(rng), rng.randrange(-9, 99), rng.random() * 1e3, True, None][kind]


def random_message(rng: random.Random, forms: Sequence[str]) -> str:
    """Return calls in one of some forms, most often; else words."""
    if rng.random() < 0.2:
        return f"Nothing to call, says {random_text(rng)}"
    calls = [
        Call(rng.choice(["f", "g_h", "find"]), {"a": random_value(rng), "b": random_value(rng)})
        for _ in range(rng.choice([1, 2, 2, 3]))
    ]
    try:
        return get_handler(rng.choice(forms)).render(calls)
    except ValueError:  # what the form cannot say
        return random_message(rng, forms)


def sampled_ids(rng: random.Random, text: str) -> list[int]:
    """Return tokens of a text, now and then others than the tokenizer's."""
    by_text = {
        token.replace("Ġ", " "): TEMPLATE.tokenizer.convert_tokens_to_ids(token)
        for token in UNMERGED
    }
    ids, at = list[int](), 0
    while at < len(text):
        longer = [piece for piece in by_text if text.startswith(piece, at)]
        if longer and rng.random() < 0.6:
            ids.append(by_text[longer[0]])
            at += len(longer[0])
        else:
            ids += TEMPLATE.encode(text[at])
            at += 1
    return [*ids, TEMPLATE.end_of_turn_id]


def sent_back(rng: random.Random, message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as frameworks send it: arguments spelled anew, empty content dropped."""
    copy = json.loads(json.dumps(message))
    for call in copy.get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        if rng.random() < 0.5:
            arguments = dict(reversed(arguments.items()))
        call["function"]["arguments"] = json.dumps(
            arguments, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1])
        )
    if not copy.get("content") and rng.random() < 0.5:
        copy["content"] = rng.choice([None, ""])
    return dict(copy)


@pytest.fixture(scope="module")
def sampling() -> Any:
    """Yield a gateway, and the engine that says what a test puts into it."""
    engine, sampler, over = TokenScript(), Sampler(1), threading.Event()
    settings = GatewaySettings(max_sessions=8 * EPISODES, max_episode_tokens=10**6)
    thread = threading.Thread(target=sampler.run, args=(engine, over.is_set))
    thread.start()
    yield Gateway(TEMPLATE, sampler, settings), engine
    over.set()
    sampler.wake()
    thread.join()


def episode(
    rng: random.Random, gateway: Gateway, engine: TokenScript, number: int, forms: Sequence[str]
) -> tuple[GatewaySession, int, int]:
    """Play one episode; return its session, and how many messages had calls, and two of them."""
    session = gateway.open("")
    messages: list[Any] = [{"role": "user", "content": f"u{rng.random()}"}]
    row, with_calls, with_two = list[int](), 0, 0
    for step in range(rng.randrange(2, 5)):
        text = random_message(rng, forms)
        ids = sampled_ids(rng, text)
        assert TEMPLATE.decode(ids) == text
        engine.answers.append(ids)
        body = {"messages": messages, "tools": [TOOL]}
        answered = gateway.complete(session, chat_request(json.loads(json.dumps(body))))
        assert engine.prompts[-1][: len(row)] == row, f"episode {number} step {step}"
        row = [*engine.prompts[-1], *ids]
        message = answered.messages[0].message
        calls = message.get("tool_calls", [])
        with_calls += bool(calls)
        with_two += len(calls) > 1
        messages.append(sent_back(rng, message))
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"r{rng.randrange(99)}"}
            for call in calls
        ]
        messages += results or [{"role": "user", "content": "go on"}]
    return session, with_calls, with_two


@pytest.mark.parametrize(
    ("forms", "episodes"),
    [
        (HANDLER_NAMES, 150),
        *(pytest.param((each,), EPISODES, marks=pytest.mark.prove) for each in HANDLER_NAMES),
    ],
)
def test_calls_come_back_as_the_ids_that_were_sampled(
    forms: Sequence[str], episodes: int, sampling: tuple[Gateway, Any]
) -> None:
    rng, gateway, engine = random.Random(1), *sampling
    with_calls = with_two = other_ids = 0
    for number in range(episodes):
        session, calls, two = episode(rng, gateway, engine, number, forms)
        with_calls += calls
        with_two += two
        assert session.drift == []
        [row] = session.to_record().rows
        sampled = [token for action in session.forest.actions for token in action.ids]
        trained = [token for token, own in zip(row.ids, row.acted, strict=True) if own]
        assert trained == sampled
        text = "".join(session.texts)
        other_ids += TEMPLATE.encode(text) != [
            token for token in sampled if token != TEMPLATE.end_of_turn_id
        ]
        engine.prompts.clear()
    assert other_ids > episodes // 2  # encoding the texts again would have missed them
    assert with_two > episodes // 2
    assert with_calls > with_two
