"""The environment's contract: turns, ends, infos, states and errors, on tasks small enough to know
every answer.
"""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from players import (
    DONE,
    SHOP_DOCS,
    Replay,
    Shop,
    perfect_texts,
    shop_env,
    shop_task,
    simple_task,
    user,
)

from fctncalling.data.types import Message
from fctncalling.envs import spaces
from fctncalling.envs.handlers import python_calls
from fctncalling.envs.prompting.prompts import MORE_FUNCTIONS
from fctncalling.envs.python_source.call_source import parse_plain_calls

SELL = "[sell(item='apple')]"
INFO = {
    "task_id",
    "category",
    "turn",
    "messages",
    "tools",
    "calls",
    "error",
    "stop",
    "continuation",
    "state_hash",
}


def test_first_observation_is_the_instructions_and_the_first_turn() -> None:
    observation, info = shop_env(shop_task(["look()"])).reset()
    assert observation == info["instructions"] + "\n\nRequest 0."
    assert all(json.dumps(doc.name) in info["instructions"] for doc in SHOP_DOCS)
    assert set(info) == INFO | {"place", "instructions"}
    assert (info["task_id"], info["category"], info["turn"]) == (
        "multi_turn_base_0",
        "multi_turn_base",
        0,
    )
    assert info["messages"] == user("Request 0.")
    assert [tool["function"]["name"] for tool in info["tools"]] == [doc.name for doc in SHOP_DOCS]
    assert (info["calls"], info["error"], info["stop"], info["continuation"]) == (
        [],
        None,
        [],
        "message",
    )


def test_system_message_of_a_task_stands_behind_the_instructions() -> None:
    question = [[{"role": "system", "content": "Be brief."}, *user("Sell.")]]
    observation, info = shop_env(simple_task(question=question)).reset()
    assert observation == info["instructions"] + "\n\nBe brief.\n\nSell."
    assert [message["role"] for message in info["messages"]] == ["system", "user"]


def test_calls_are_answered_by_their_results_and_text_ends_the_turn() -> None:
    env = shop_env(shop_task(["sell('apple')"], ["look()"]))
    env.reset()
    observation, reward, terminated, truncated, info = env.step(
        "[sell(item='apple', price=2), look()]"
    )
    expected = [
        {"role": "tool", "name": "sell(item='apple', price=2)", "content": '{"till": 12}'},
        {"role": "tool", "name": "look()", "content": "till 12"},
    ]
    assert info["messages"] == expected
    assert observation == repr(expected)
    assert [(call.name, call.arguments) for call in info["calls"]] == [
        ("sell", {"item": "apple", "price": 2}),
        ("look", {}),
    ]
    assert (reward, terminated, truncated, info["turn"], info["error"]) == (
        0.0,
        False,
        False,
        0,
        None,
    )
    observation, _, terminated, truncated, info = env.step("Sold.")
    assert (observation, info["messages"]) == ("Request 1.", user("Request 1."))
    assert (terminated, truncated, info["turn"], info["error"]) == (False, False, 1, "no_call")
    assert "verdict" not in info
    observation, reward, terminated, truncated, info = env.step("Bye.")
    assert (observation, info["messages"], info["turn"], terminated, truncated) == (
        "",
        [],
        1,
        True,
        False,
    )
    assert info["verdict"].error_type == "multi_turn:instance_state_mismatch"
    assert info["verdict"].per_turn == (False, False)


@pytest.mark.parametrize("limit", [1, 2, 20])
def test_the_step_over_the_limit_is_executed_and_ends_the_task(limit: int) -> None:
    env = shop_env(shop_task(["look()"], ["look()"]), max_steps_per_turn=limit)
    played = Replay(env, ["[look()]"] * 50)
    assert len(played.steps) == limit + 1
    assert played.steps[-1][2:4] == (True, False)
    assert played.info["error"] == "step_limit"
    assert played.info["messages"][0]["content"] == "till 10"
    assert played.info["verdict"].error_type == "multi_turn:force_terminated"
    assert all(step[4]["error"] is None for step in played.steps[:-1])


def test_step_limit_in_the_last_turn_is_graded_as_usual() -> None:
    task = shop_task(["look()"], ["look()"])
    played = Replay(shop_env(task, max_steps_per_turn=2), ["[look()]", DONE, *["[look()]"] * 9])
    assert (len(played.steps), played.info["error"], played.valid, played.total) == (
        5,
        "step_limit",
        True,
        1.0,
    )


def test_limit_counts_calling_steps_of_one_turn_only() -> None:
    task = shop_task(["look()"], ["look()"])
    texts = ["[look()]", "[look()]", DONE, "[look()]", "[look()]", DONE]
    assert Replay(shop_env(task, max_steps_per_turn=2), texts).valid


@pytest.mark.parametrize(
    ("text", "error_type", "error"),
    [
        (SELL, None, None),
        ("[sell(item='pear')]", "value_error:string", None),
        ("[sell()]", "simple_function_checker:missing_required", "bad_arguments"),
        ("[buy(item='apple')]", "simple_function_checker:wrong_func_name", "unknown_function"),
        ("[sell(item='apple'", "ast_decoder:decoder_failed", "malformed"),
        ("I will not.", "ast_decoder:decoder_failed", "no_call"),
        ("", "simple_function_checker:wrong_count", "no_call"),
        ("[]", "simple_function_checker:wrong_count", "no_call"),
    ],
)
def test_single_turn_is_one_step_checked_at_once(
    text: str, error_type: str | None, error: str | None
) -> None:
    played = Replay(shop_env(simple_task()), [text])
    assert played.steps[0][2:4] == (True, False)
    assert (played.info["verdict"].error_type, played.info["error"]) == (error_type, error)
    assert played.total == float(error_type is None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[look()]", None),
        ("[nothing()]", "unknown_function"),
        ("[sell(item='apple', cost=1)]", "bad_arguments"),
        ("[sell()]", "bad_arguments"),
        ("[sell(item='pear')]", "tool_error"),
        ("[sell(item='apple', price='x')]", "tool_error"),
        ('[shout(text=\'{"error": 1, "more": 2}\')]', None),
    ],
)
def test_error_names_the_mistake_of_a_step(text: str, error: str | None) -> None:
    played = Replay(shop_env(shop_task(["look()"])), [text])
    assert played.info["error"] == error


def test_retry_malformed_answers_what_cannot_be_read_and_nothing_else() -> None:
    env = shop_env(shop_task(["look()"]), retry_malformed=True)
    env.reset()
    observation, _, terminated, _, info = env.step("[look(")
    assert "could not be read" in observation
    assert info["messages"] == user(observation)
    assert (terminated, info["turn"], info["error"]) == (False, 0, "malformed")
    assert env.step("[look()]")[4]["messages"][0]["content"] == "till 10"
    assert env.step(DONE)[2]
    assert Replay(shop_env(shop_task(["look()"])), ["[look("]).ended


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        ("I have looked (there is one till).", False),
        ("File(s) and till(s): 10 (ten)", False),
        ("I used look(here) for it.", False),
        ("look(", True),
        ("sell(item", True),
        ("So: sell(item='apple'", True),
        ("Look:\nsell(apple)\nsell(pear)", True),
        ("I call look() now.", True),
    ],
)
def test_brackets_in_prose_are_no_calls_that_cannot_be_read(text: str, is_call: bool) -> None:
    played = Replay(shop_env(shop_task(["look()"]), retry_malformed=True), [text])
    assert played.ended != is_call
    assert played.info["error"] == ("malformed" if is_call else "no_call")


def test_retries_count_towards_the_step_limit() -> None:
    for task in (shop_task(["look()"]), simple_task()):
        played = Replay(shop_env(task, retry_malformed=True, max_steps_per_turn=3), ["[look("] * 99)
        assert (len(played.steps), played.info["error"], played.valid) == (4, "step_limit", False)


def test_retried_single_turn_answer_is_judged_by_its_last_message() -> None:
    assert Replay(shop_env(simple_task(), retry_malformed=True), ["[sell(", SELL]).valid


def test_user_answers_a_message_without_calls_within_the_turn() -> None:
    heard: list[tuple[list[Message], dict[str, Any]]] = []

    def customer(messages: list[Message], about: Any) -> str | None:
        heard.append((messages, dict(about)))
        return "An apple." if "?" in messages[-1]["content"] else None

    env = shop_env(shop_task(["sell('apple')"], ["look()"]), user=customer)
    played = Replay(env, ["What do you want?", SELL, DONE, "[look()]", DONE])
    assert played.valid
    assert played.steps[0][0] == "An apple."
    assert played.steps[0][4]["messages"] == user("An apple.")
    assert [step[4]["turn"] for step in played.steps] == [0, 0, 1, 1, 1]
    assert [message["role"] for message in heard[1][0]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert heard[0][1].pop("task") is env.tasks[0]
    assert heard[0][1] == {"task_id": "multi_turn_base_0", "category": "multi_turn_base", "turn": 0}


def test_a_chatty_user_cannot_keep_an_episode_alive() -> None:
    env = shop_env(
        shop_task(["look()"]), user=lambda messages, about: "Go on.", max_steps_per_turn=5
    )
    assert len(Replay(env, ["Hm?"] * 99).steps) == 6


def test_held_out_functions_are_offered_at_their_turn() -> None:
    task = shop_task(
        ["look()"],
        [],
        ["sell('apple')"],
        question=[user("Look."), user("Sell an apple."), []],
        missed_functions={2: ("sell",)},
    )
    env = shop_env(task)
    observation, info = env.reset()
    assert '"sell"' not in observation
    names = [[tool["function"]["name"] for tool in info["tools"]]]
    for text in ("[look()]", DONE, DONE):
        observation, *_, info = env.step(text)
        names.append([tool["function"]["name"] for tool in info["tools"]])
    assert names == [["look", "shout", "burn"]] * 3 + [["sell", "look", "shout", "burn"]]
    docs, sentence = observation.rsplit("\n", 1)
    assert sentence == MORE_FUNCTIONS
    assert docs.startswith("[{'name': 'sell', 'description': 'To sell.")
    assert info["messages"] == [
        {"role": "user", "content": observation, "tools": info["tools"][:1]}
    ]
    env.step(SELL)
    assert env.step(DONE)[4]["verdict"].valid


def test_infos_share_nothing_with_the_environment_or_the_task() -> None:
    task = shop_task(["look()"], ["sell('apple')"])
    untouched, expected = copy.deepcopy(task), Replay(shop_env(task), perfect_texts(task))
    env = shop_env(task)
    for _ in range(2):
        outputs: list[tuple[Any, ...]] = [env.reset(options={"task_id": task.id})]
        for text, step in zip(perfect_texts(task), expected.steps, strict=True):
            outputs.append(env.step(text))
            assert outputs[-1] == step
            for container in (
                outputs[-1][-1]["messages"],
                outputs[-1][-1]["tools"],
                outputs[-2][-1]["tools"],
            ):
                for item in container:
                    item.clear()
                container.clear()
    assert task == untouched


def test_the_same_episode_twice_gives_identical_observations() -> None:
    tasks = [shop_task(["look()"], task_id=f"multi_turn_base_{i}") for i in range(9)]
    texts = ["[sell(item='apple'), nothing()]", "[shout(text='é\ud83d')]", "nonsense("]
    first, second = shop_env(*tasks), shop_env(*tasks)
    for seed in range(5):
        one, other = Replay(first, texts, seed=seed), Replay(second, texts, seed=seed)
        assert (one.first, one.steps) == (other.first, other.steps)
        assert Replay(first, texts).first == Replay(second, texts).first


@pytest.mark.parametrize("cut", range(5))
def test_restored_state_continues_identically(cut: int) -> None:
    tasks = [
        shop_task(["look()", "sell('apple')"], ["look()"], task_id=f"multi_turn_base_{i}")
        for i in range(5)
    ]
    texts = ["[sell(item='apple')]", "[look()]", DONE, "[look()]", DONE]
    env = shop_env(*tasks, reward="progress")
    env.reset(seed=3)
    for text in texts[:cut]:
        env.step(text)
    state = pickle.loads(pickle.dumps(env.get_state()))
    futures = []
    for player in (env, env, shop_env(*tasks, reward="progress")):
        player.set_state(state)
        steps = [player.step(text) for text in texts[cut:]]
        futures.append((steps, player.reset(), player.np_random.integers(1 << 60), player.episode))
    assert futures[0] == futures[1] == futures[2]


def test_state_before_the_first_reset_and_after_the_end_can_be_kept() -> None:
    env = shop_env(simple_task())
    fresh = env.get_state()
    Replay(env, ["No."])
    ended = env.get_state()
    env.set_state(fresh)
    with pytest.raises(ResetNeeded, match="no task has begun"):
        env.step("x")
    env.set_state(ended)
    with pytest.raises(ResetNeeded, match="has ended"):
        env.step("x")


def test_long_observation_is_cut_and_the_cut_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fctncalling.envs.function_calling.OBSERVATION_BYTES", 40)
    env = shop_env(shop_task(["look()"]))
    env.observation_space = spaces.UnicodeText(40)
    env.reset()
    text = "ü" * 100
    observation, *_, info = env.step(f"[shout(text='{text}')]")
    assert observation in env.observation_space
    assert info["messages"][0]["content"] == text
    assert info["observation_bytes_cut"] == len(repr(info["messages"]).encode()) - len(
        observation.encode()
    )


def test_episode_holds_every_step() -> None:
    env = shop_env(shop_task(["sell('apple')"]), reward="progress")
    played = Replay(env, [SELL, DONE], seed=4)
    episode = env.episode
    assert [step.text for step in episode.steps] == [SELL, DONE]
    assert episode.steps[0].executed == ("sell(item='apple')",)
    assert episode.steps[0].results == ('{"till": 11}',)
    assert sum(step.reward for step in episode.steps) == played.total == 1.0
    assert (episode.seed, episode.terminated, episode.truncated, episode.invalid) == (
        4,
        True,
        False,
        False,
    )
    assert episode.verdict == played.info["verdict"]


def test_numpy_strings_are_actions_too() -> None:
    assert Replay(shop_env(simple_task()), np.array([SELL])).valid


def test_a_task_without_answers_is_played_but_not_judged() -> None:
    played = Replay(shop_env(simple_task(ground_truth=None)), [SELL])
    assert (played.ended, played.info["verdict"], played.total) == (True, None, 0.0)
    assert "invalid" not in played.info


def test_tools_of_one_episode_are_never_those_of_another() -> None:
    env = shop_env(shop_task(["look()"]))
    for _ in range(3):
        assert Replay(env, [SELL]).info["messages"][0]["content"] == '{"till": 11}'
    assert not hasattr(Shop, "till")


@pytest.mark.parametrize("handler", ["auto", "python_calls", "lenient:python_calls"])
def test_the_text_of_an_action_is_parsed_once(
    handler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def parse(text: str) -> list[dict[str, dict[Any, Any]]] | None:
        parsed.append(text)
        return parse_plain_calls(text)

    monkeypatch.setattr(python_calls, "parse_plain_calls", parse)
    for task in (shop_task([SELL[1:-1]]), simple_task()):  # executed, and judged as it stands
        parsed.clear()
        assert Replay(shop_env(task, handler=handler), [SELL]).steps[0][4]["calls"]
        assert parsed == [SELL]
