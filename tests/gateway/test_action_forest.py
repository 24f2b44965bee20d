"""The forest of rows is what an oracle makes of the texts alone."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from gateways import RunningGateway, TokenScript, running_gateway
from tiny_models import CHATML, FORGETS_THOUGHTS, tiny_tokenizer

from fctncalling.algorithms.episodes import TokenRecord, check_token_record
from fctncalling.algorithms.generation.engine_api import Action, Request
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.lab.gateway.action_forest import (
    ActionForest,
    SampledAction,
    kept_actions,
    rewards_of_actions,
    training_rows,
)

TEMPLATE = ChatTemplate(tiny_tokenizer(CHATML))
SYSTEM = {"role": "system", "content": "main"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def acted(rows: Sequence[TokenRecord], template: ChatTemplate = TEMPLATE) -> list[list[str]]:
    """Return the texts of the actions of each row."""
    found = []
    for row in rows:
        texts, ids = list[str](), list[int]()
        for token, own, end in zip(row.ids, row.acted, row.ends_action, strict=True):
            ids += [token] if own else []
            if end:
                texts.append(template.decode(ids))
                ids = []
        found.append(texts)
    return found


class ScriptedSession:
    """One session against a script of texts."""

    def __init__(self, gateway: RunningGateway, engine: TokenScript) -> None:
        self.client, self.engine = gateway.client("x"), engine
        self.gateway = gateway

    def ask(self, messages: Sequence[Any], *texts: str, **fields: Any) -> dict[str, Any]:
        """Ask for as many choices as there are texts; return the first message."""
        end = [TEMPLATE.end_of_turn_id]
        self.engine.answers += [[*TEMPLATE.encode(text), *end] for text in texts]
        message: dict[str, Any] = self.client.chat(messages, n=len(texts), **fields)["message"]
        return message

    def rows(self) -> list[list[str]]:
        """Return the actions that are trained, row by row."""
        session = self.gateway.session("x")
        record = session.to_record()
        for row in record.rows:
            check_token_record(row)
        return acted(record.rows)

    def kinds(self) -> list[str]:
        return [each.kind for each in self.gateway.session("x").drift]


@pytest.fixture
def played() -> Any:
    engine = TokenScript()
    with running_gateway(engine, TEMPLATE) as gateway:
        yield ScriptedSession(gateway, engine)


def test_a_history_that_grows_is_one_row(played: ScriptedSession) -> None:
    messages = [SYSTEM, user("1")]
    for text in ("a", "b", "c"):
        messages += [played.ask(messages, text), user(text)]
    assert played.rows() == [["a", "b", "c"]]
    assert played.kinds() == []


def test_sub_agents_have_rows_of_their_own_in_order_of_time(played: ScriptedSession) -> None:
    main = [SYSTEM, user("1")]
    main += [played.ask(main, "call the helper")]
    helper = [{"role": "system", "content": "helper"}, user("help")]
    helper += [played.ask(helper, "h1"), user("more")]
    helper += [played.ask(helper, "h2")]
    main += [user("the helper said h2")]
    played.ask(main, "done")
    assert played.rows() == [["call the helper"], ["h1", "h2"], ["done"]]
    last = played.gateway.session("x").to_record().rows[-1]
    assert "call the helper" in TEMPLATE.spell(last.ids)  # as context
    assert played.kinds() == []


def test_a_history_cut_in_the_middle_begins_a_row(played: ScriptedSession) -> None:
    messages = [SYSTEM, user("1")]
    messages += [played.ask(messages, "a"), user("2")]
    messages += [played.ask(messages, "b"), user("3")]
    cut = [SYSTEM, user("2"), messages[4], user("3")]
    played.ask(cut, "c")
    assert played.rows() == [["a", "b"], ["c"]]
    assert played.kinds() == ["moved"]


def test_a_message_that_the_agent_edited_is_context(played: ScriptedSession) -> None:
    messages = [SYSTEM, user("1")]
    messages += [played.ask(messages, "a"), user("2")]
    played.ask([*messages[:2], said("A!"), messages[3]], "b")
    assert played.rows() == [["a"], ["b"]]
    [drift] = played.gateway.session("x").drift
    assert (drift.kind, drift.request, drift.message) == ("edited", 1, 2)
    assert "'[\"a\", []]' became '[\"A!\", []]'" in drift.why


def test_a_message_that_was_sampled_nowhere_is_told_apart(played: ScriptedSession) -> None:
    messages = [SYSTEM, user("1")]
    played.ask(messages, "a")
    played.ask([SYSTEM, user("another"), said("foreign"), user("2")], "b")
    assert played.rows() == [["a"], ["b"]]
    assert played.kinds() == ["foreign"]


@pytest.mark.parametrize("chosen", [0, 1])
def test_of_several_choices_the_one_that_was_gone_on_from_is_trained(
    played: ScriptedSession, chosen: int
) -> None:
    messages = [SYSTEM, user("1")]
    played.ask(messages, "a0", "a1")
    played.ask([*messages, said(f"a{chosen}"), user("2")], "b")
    assert played.rows() == [[f"a{chosen}", "b"]]


def test_choices_that_none_was_chosen_of_are_all_trained(played: ScriptedSession) -> None:
    played.ask([SYSTEM, user("1")], "a0", "a1", "a2")
    assert played.rows() == [["a0"], ["a1"], ["a2"]]


def test_a_retry_takes_the_place_of_what_was_asked_before(played: ScriptedSession) -> None:
    messages = [SYSTEM, user("1")]
    played.ask(messages, "lost")
    assert played.rows() == [["lost"]]
    answer = played.ask(messages, "retried")
    assert played.rows() == [["retried"]]
    played.ask([*messages, answer, user("2")], "b")
    assert played.rows() == [["retried", "b"]]


class LateFirst(TokenScript):
    """Answers its first request after all others."""

    def __init__(self) -> None:
        super().__init__()
        self.first: list[Request] = []
        self.wanted = threading.Event()

    def submit(self, request: Request) -> None:
        if self.first:
            super().submit(request)
        else:
            self.first.append(request)

    def advance(self) -> list[tuple[int, Action]]:
        time.sleep(0.001)
        if self.wanted.is_set():
            self.wanted.clear()
            super().submit(self.first[0])
        return super().advance()


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_answer_that_comes_after_its_retry_is_not_trained(goes_on: bool) -> None:
    engine, messages = LateFirst(), [SYSTEM, user("1")]
    with running_gateway(engine, TEMPLATE) as gateway:
        played = ScriptedSession(gateway, engine)
        hasty = gateway.client("x")
        hasty._connection.timeout = 0.2
        with pytest.raises(TimeoutError):
            hasty.chat(messages)
        hasty.close()
        answer, expected = played.ask(messages, "retried"), ["retried"]
        if goes_on:
            played.ask([*messages, answer, user("2")], "b")
            expected.append("b")
        engine.answers.append([*TEMPLATE.encode("late"), TEMPLATE.end_of_turn_id])
        engine.wanted.set()
        while "late" not in gateway.session("x").texts:
            time.sleep(0.001)
        assert played.rows() == [expected]


def test_a_retry_that_says_the_same_is_trained_once(played: ScriptedSession) -> None:
    messages = [SYSTEM, user("1")]
    for text in ("same", "other", "same"):
        answer = played.ask(messages, text)
    messages += [answer, user("2")]
    messages += [played.ask(messages, "b", "b"), user("3")]
    played.ask(messages, "c")
    assert played.rows() == [["same", "b", "c"]]
    assert played.kinds() == []


def test_histories_from_elsewhere_cost_no_more_than_their_length(played: ScriptedSession) -> None:
    played.ask([SYSTEM, user("1")], "a")
    renders, render = list[int](), TEMPLATE.render_prompt
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            TEMPLATE, "render_prompt", lambda *given: (renders.append(1), render(*given))[1]
        )
        played.ask([SYSTEM, *[user("x"), said("y")] * 40, user("2")], "b")
    assert played.kinds() == ["foreign"] * 40
    assert len(renders) == 1


def test_a_template_that_rewrites_its_history_splits_rows_and_says_why() -> None:
    template = ChatTemplate(tiny_tokenizer(FORGETS_THOUGHTS))
    assert not template.append_only
    texts = ["<think>x</think>a", "b"]
    engine = TokenScript([[*template.encode(text), template.end_of_turn_id] for text in texts])
    with running_gateway(engine, template) as gateway:
        client = gateway.client("x")
        messages = [user("1")]
        messages += [client.chat(messages)["message"], user("2")]
        client.chat(messages)
        session = gateway.session("x")
    assert acted(session.to_record().rows, template) == [["<think>x</think>a"], ["b"]]
    [drift] = session.drift
    assert drift.kind == "rewritten"
    assert "renders the history anew" in drift.why


def test_a_reward_of_what_was_dropped_goes_to_the_action_before() -> None:
    assert rewards_of_actions([1, 4], [(0, 1.0), (1, 2.0), (3, 4.0), (9, 8.0)]) == {1: 7.0, 4: 8.0}
    assert rewards_of_actions([], [(0, 1.0)]) == {}


def test_rows_do_not_reach_over_a_change_of_weights() -> None:
    forest = ActionForest()
    forest.add(SampledAction(0, 0, None, (1, 2), (3,), (-1.0,), version=4))
    forest.add(SampledAction(1, 1, 0, (5,), (6,), (-2.0,), version=5))
    rows = training_rows(forest, [0, 1], {0: 1.0})
    assert [row.ids for row in rows] == [[1, 2, 3], [1, 2, 3, 5, 6]]
    assert [row.acted for row in rows] == [[False] * 2 + [True], [False] * 4 + [True]]
    assert [row.version for row in rows] == [4, 5]


# A random agent, and an oracle that knows texts alone.


class TextOracle:
    """Asked prompts and sampled texts; rows by brute force."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.texts: list[str] = []
        self.requests: list[int] = []
        self.referred: set[int] = set()

    def first(self, number: int) -> int:
        """Return the first action with the same prompt and text."""
        pairs = list(zip(self.prompts, self.texts, strict=True))
        return pairs.index(pairs[number])

    def read(self, messages: Sequence[Any]) -> None:
        """Note which actions a request has, as they were or edited."""
        for index, message in enumerate(messages):
            if message["role"] == "assistant":
                prompt, text = rendered(messages[:index]), f"{message['content']}<|im_end|>"
                here = [at for at, other in enumerate(self.prompts) if other == prompt]
                same = [at for at, other in enumerate(self.texts) if other == text]
                found = {self.first(at) for at in here if at in same or not same}
                moved = {self.first(same[-1])} if same else set()
                found = moved if same and not found else found
                self.referred |= found if same or len(found) == 1 else set()

    def parent(self, number: int) -> int | None:
        """Return the earlier action whose prompt and text are the longest prefix of a prompt."""
        ends = [
            (len(self.prompts[each] + self.texts[each]), -each)
            for each in range(number)
            if self.prompts[number].startswith(self.prompts[each] + self.texts[each])
        ]
        return -max(ends)[1] if ends else None

    def kept_numbers(self) -> list[int]:
        parents = {self.parent(number) for number in range(len(self.texts))}
        found = []
        for number, prompt in enumerate(self.prompts):
            group = [each for each, other in enumerate(self.prompts) if other == prompt]
            used = [each for each in group if each in parents or each in self.referred]
            last = max(self.requests[each] for each in group)
            if number in used or (not used and self.requests[number] == last):
                found.append(number)
        return found

    def rows(self) -> list[tuple[str, list[str]]]:
        """Return the whole text of each row, and the texts that are acted in it."""
        rows: list[tuple[str, list[str]]] = []
        before = None
        for number in self.kept_numbers():
            text = self.prompts[number] + self.texts[number]
            if before is not None and self.parent(number) == before:
                rows[-1] = (text, [*rows[-1][1], self.texts[number]])
            else:
                rows.append((text, [self.texts[number]]))
            before = number
        return rows


def rendered(messages: Sequence[Any]) -> str:
    """Return the prompt of a conversation as the template alone writes it."""
    text: Any = TEMPLATE.tokenizer.apply_chat_template(
        list(messages), tokenize=False, add_generation_prompt=True
    )
    return str(text)


def random_request(rng: random.Random, known: list[list[Any]]) -> list[Any]:
    """Return messages that go on from, branch off, cut or edit what was asked before."""
    kind = rng.choice(["new", "go on", "go on", "go on", "again", "cut", "edit"])
    if kind == "new" or not known:
        return [{"role": "system", "content": f"s{rng.randrange(3)}"}, user(f"u{rng.random():.3f}")]
    messages = list(rng.choice(known[-4:]))
    if kind == "again":
        return messages[:-1]
    if kind == "cut" and len(messages) > 4:
        return [messages[0], *messages[3:], user(f"c{rng.random():.3f}")]
    if kind == "edit":
        messages[-1] = said(messages[-1]["content"] + "!")
    return [*messages, user(f"g{rng.random():.3f}")]


@pytest.mark.parametrize("num_texts", [10**6, 3])
@pytest.mark.parametrize("seed", range(6))
def test_random_agents_have_the_rows_of_the_oracle(seed: int, num_texts: int) -> None:
    rng, oracle, engine = random.Random(seed), TextOracle(), TokenScript()
    known: list[list[Any]] = []
    with running_gateway(engine, TEMPLATE) as gateway:
        played = ScriptedSession(gateway, engine)
        for request in range(25):
            messages = random_request(rng, known)
            texts = [f"t{rng.randrange(num_texts)}" for _ in range(rng.choice([1, 1, 1, 2]))]
            oracle.read(messages)
            played.ask(messages, *texts)
            for text in texts:
                oracle.prompts.append(rendered(messages))
                oracle.texts.append(f"{text}<|im_end|>")
                oracle.requests.append(request)
            known.append([*messages, said(rng.choice(texts))])
        session = gateway.session("x")
    assert [TEMPLATE.spell(prompt) for prompt in engine.prompts] == oracle.prompts
    forest = session.forest
    parents = [action.parent for action in forest.actions]
    assert parents == [oracle.parent(number) for number in range(len(parents))]
    kept = kept_actions(forest, session.referred)
    assert kept == oracle.kept_numbers()
    rows = session.to_record().rows
    expected = oracle.rows()
    assert [TEMPLATE.spell(row.ids) for row in rows] == [text for text, _ in expected]
    assert [[f"{text}<|im_end|>" for text in row] for row in acted(rows)] == [
        texts for _, texts in expected
    ]
    assert len([text for row in acted(rows) for text in row]) == len(kept)
