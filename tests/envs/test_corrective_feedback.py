"""Corrective feedback: a wrong call learns what would mend it, a right one and every verdict stay
as they are.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from players import DONE, SHOP_DOCS, Replay, shop_env, shop_task, simple_task

from fctncalling.data.bfcl import load_tasks
from fctncalling.envs.episode_runner import EXECUTION_ERROR
from fctncalling.envs.function_calling import FunctionCallingEnv


def told(text: str, *, corrective: bool = True, **fields: object) -> list[str]:
    """Return the results that answer a message in the first turn at the shop."""
    env = shop_env(shop_task(["look()"], ["look()"], **fields), corrective_feedback=corrective)
    env.reset()
    return [message["content"] for message in env.step(text)[4]["messages"]]


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("sel(item='apple')", 'There is no function "sel"; offered and nearest in name: sell'),
        ("sell(price=2)", "sell lacks item (string)."),
        ("sell(item='apple', cost=1)", "sell has no parameter cost; it takes item, price."),
        ("look(where='till')", "look has no parameter where; it takes no parameters."),
        ("sell(item='apple', price='x')", "price must be of type integer, not string."),
        (
            "sell(thing='apple', price=True)",
            "sell lacks item (string). sell has no parameter thing",
        ),
        ("sell(thing='apple', price=True)", "price must be of type integer, not boolean."),
    ],
)
def test_a_wrong_calls_result_goes_on_with_what_to_mend(call: str, advice: str) -> None:
    plain, corrected = (told(f"[{call}]", corrective=flag)[0] for flag in (False, True))
    assert corrected.startswith(plain + "\n")
    assert advice in corrected.removeprefix(plain)


@pytest.mark.parametrize(
    "call",
    [
        "look()",
        "sell(item='apple', price=2)",
        "sell(item='pear')",
        "shout(text='Error')",
        "sell(item='apple')",
    ],
)
def test_what_the_doc_allows_is_not_commented_on(call: str) -> None:
    assert told(f"[{call}]") == told(f"[{call}]", corrective=False)


def test_each_wrong_call_of_a_message_has_its_own_advice() -> None:
    first, second, third = told("[look(), sell(), sel()]")
    assert first == "till 10"
    assert second.endswith("\nsell lacks item (string).")
    assert "There is no function" in third


def test_functions_still_held_out_are_not_given_away() -> None:
    (result,) = told("[lock()]", functions=SHOP_DOCS, missed_functions={1: ["look"]})
    assert result.startswith(EXECUTION_ERROR)
    assert "look" not in result.splitlines()[1]


MANY = ", ".join("y" * 200 + f"{number}=1" for number in range(20))


@pytest.mark.parametrize("call", ["x" * 5000 + "()", f"look({MANY})"], ids=["name", "parameters"])
def test_a_flood_of_names_is_cut(call: str) -> None:
    (result,) = told(f"[{call}]")
    assert 20 < len(result.splitlines()[-1]) < 600


def test_single_turn_tasks_end_as_they_did() -> None:
    for text in ("[sel()]", "[sell()]", "no"):
        one, other = (
            Replay(shop_env(simple_task(), corrective_feedback=flag), [text]).steps
            for flag in (True, False)
        )
        assert one[0][1:4] == other[0][1:4]
        assert one[0][4]["verdict"] == other[0][4]["verdict"]


def test_the_record_of_an_episode_and_its_verdict_are_those_without_feedback() -> None:
    texts = [
        "[sel()]",
        "[sell(cost=1)]",
        "[sell(item='apple', price='x')]",
        "[look()]",
        DONE,
        "[look()]",
        DONE,
    ]
    records = []
    for flag in (False, True):
        env = shop_env(shop_task(["look()"], ["look()"]), corrective_feedback=flag)
        played = Replay(env, texts)
        records.append((env.episode.steps, env.episode.verdict, played.rewards))
    assert records[0] == records[1]


def test_official_tasks_under_random_calls_keep_their_verdicts(shared: Path) -> None:
    tasks = load_tasks(shared / "bfcl" / "data" / "BFCL_v4_multi_turn_miss_func.json")[:10]
    draw = random.Random(0)
    num_corrected = 0
    for task in tasks:
        names = [doc.name for doc in task.functions]
        texts = [
            DONE
            if draw.random() < 0.3
            else f"[{draw.choice(names)[: draw.choice([3, None])]}(x=1, name='a')]"  # type: ignore[misc]
            for _ in range(40)
        ]
        plain, corrective = (
            FunctionCallingEnv(tasks=[task], corrective_feedback=flag) for flag in (False, True)
        )
        one, other = Replay(plain, texts), Replay(corrective, texts)
        assert one.info["verdict"] == other.info["verdict"]
        assert one.rewards == other.rewards
        assert plain.episode.steps == corrective.episode.steps
        num_corrected += sum(a[0] != b[0] for a, b in zip(one.steps, other.steps, strict=True))
    assert num_corrected > 50
