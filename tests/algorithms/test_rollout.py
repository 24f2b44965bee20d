"""Rollouts: ids, masks, rewards and ends are those of the episode that was played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest
from tiny_models import FORGETS_THOUGHTS, EchoEnv, tiny_model, tiny_tokenizer, uncached_logprobs

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine, ScriptedEngine
from fctncalling.algorithms.generation.engine_api import RolloutError
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.run.logs import episode_json

TASKS = [f"t{i}" for i in range(9)]


def scripted(template: ChatTemplate, answer: str = "a") -> ScriptedEngine:
    def script(task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        return answer

    return ScriptedEngine(script, template.encode, template.end_of_turn_id)


def engine(template: ChatTemplate, **settings: Any) -> GenerationEngine:
    return GenerationEngine(tiny_model(), template.stop_ids, **{"max_new_tokens": 8, **settings})


def spans(record: EpisodeRecord, template: ChatTemplate) -> list[tuple[bool, str]]:
    """Return the rows' texts as alternating (acted, text)."""
    found: list[tuple[bool, list[int]]] = []
    for row in record.rows:
        for token, acted in zip(row.ids, row.acted, strict=True):
            if not found or found[-1][0] != acted:
                found.append((acted, []))
            found[-1][1].append(token)
    return [(acted, template.tokenizer.decode(ids)) for acted, ids in found]


def test_an_episode_is_one_sequence_of_context_and_actions() -> None:
    template = ChatTemplate(tiny_tokenizer())
    (record,) = collect([EchoEnv()], scripted(template), template, ["t1"], max_episode_tokens=500)
    assert spans(record, template) == [
        (False, "<|im_start|>user\nsay b<|im_end|>\n<|im_start|>assistant\n"),
        (True, "a<|im_end|>"),
        (
            False,
            "\n<|im_start|>user\n<tool_response>\nok\n</tool_response><|im_end|>\n"
            "<|im_start|>user\nnow?<|im_end|>\n<|im_start|>assistant\n",
        ),
        (True, "a<|im_end|>"),
    ]


def test_a_reward_lies_on_the_token_that_ends_its_action_and_success_is_the_verdicts() -> None:
    template = ChatTemplate(tiny_tokenizer())
    wrong, right = collect(
        [EchoEnv()], scripted(template), template, ["t1", "t0"], max_episode_tokens=500
    )
    assert (right.success, right.episode_return, right.num_steps, right.terminated) == (
        True,
        2.0,
        2,
        True,
    )
    assert (wrong.success, wrong.episode_return) == (False, 0.0)
    (row,) = right.rows
    assert [i for i, reward in enumerate(row.rewards) if reward] == [
        i for i, ends in enumerate(row.ends_action) if ends
    ]
    assert all(row.acted[i] for i, ends in enumerate(row.ends_action) if ends)
    assert (
        len(row.ids)
        == len(row.acted)
        == len(row.rewards)
        == len(row.rollout_logprobs)
        == len(row.ends_action)
    )


def test_results_come_in_the_order_of_the_tasks_whatever_ends_first() -> None:
    template = ChatTemplate(tiny_tokenizer())
    faults = {"t3": "truncate", "t5": "invalid"}
    records = collect(
        [EchoEnv(faults) for _ in range(4)],
        scripted(template),
        template,
        TASKS,
        max_episode_tokens=500,
    )
    assert [record.task_id for record in records] == TASKS


@pytest.mark.parametrize("num_envs", [1, 4, 20])
def test_equal_seeds_play_equal_episodes_for_any_number_of_environments(num_envs: int) -> None:
    template = ChatTemplate(tiny_tokenizer())

    def played(count: int, seed: int) -> list[list[int]]:
        envs: list[Any] = [EchoEnv() for _ in range(count)]
        actor = engine(template)
        with mock.patch.object(actor, "allocate_slots", wraps=actor.allocate_slots) as allocate:
            records = collect(envs, actor, template, TASKS, max_episode_tokens=500, seed=seed)
        # each slot's cache is as long as the longest episode
        assert allocate.call_args_list[0] == mock.call(min(count, len(TASKS)))
        return [record.rows[0].ids for record in records]

    assert played(num_envs, 7) == played(3, 7)
    assert played(num_envs, 7) != played(num_envs, 8)


@pytest.mark.parametrize("source", [None, FORGETS_THOUGHTS])
def test_recorded_logprobs_are_those_of_a_plain_forward_over_the_recorded_ids(
    source: str | None,
) -> None:
    template = ChatTemplate(tiny_tokenizer(source))
    actor = engine(template, temperature=0.8)
    for record in collect([EchoEnv(), EchoEnv()], actor, template, TASKS, max_episode_tokens=500):
        for row in record.rows:
            expected = uncached_logprobs(actor.model, row.ids, 0.8)
            for position, acted in enumerate(row.acted):
                if acted:
                    assert row.rollout_logprobs[position] == pytest.approx(
                        expected[position - 1, row.ids[position]].item(), abs=1e-5
                    )


def test_a_template_that_rewrites_its_history_gives_one_row_a_step() -> None:
    template = ChatTemplate(tiny_tokenizer(FORGETS_THOUGHTS))
    (record,) = collect(
        [EchoEnv()],
        scripted(template, "<think>x</think>a"),
        template,
        ["t0"],
        max_episode_tokens=500,
    )
    assert [sum(row.ends_action) for row in record.rows] == [1, 1]
    assert "x</think>" not in template.decode(
        record.rows[1].ids[: record.rows[1].acted.index(True)]
    )


def test_a_template_that_drops_thoughts_costs_a_row_only_where_one_was_written() -> None:
    template = ChatTemplate(tiny_tokenizer(FORGETS_THOUGHTS))

    def script(task_id: str, turn: int, step: int, info: Mapping[str, Any]) -> str:
        return "<think>x</think>a" if task_id == "t1" else "a"

    said = ScriptedEngine(script, template.encode, template.end_of_turn_id)
    plain, thought = collect([EchoEnv()], said, template, ["t0", "t1"], max_episode_tokens=500)
    assert [sum(row.ends_action) for row in plain.rows] == [2]
    assert [sum(row.ends_action) for row in thought.rows] == [1, 1]


def test_what_the_environment_said_last_is_kept_where_it_truncated_and_only_there() -> None:
    template = ChatTemplate(tiny_tokenizer())
    envs: list[Any] = [EchoEnv({"t0": "truncate"})]
    cut, ended = collect(envs, scripted(template), template, ["t0", "t2"], max_episode_tokens=500)
    assert cut.truncated
    assert not cut.terminated
    assert spans(cut, template)[-1][0] is False
    assert cut.rows[-1].ids[-len(template.encode("assistant\n")) :] == template.encode(
        "assistant\n"
    )
    assert spans(ended, template)[-1][0] is True


def test_a_rewritten_history_keeps_the_final_context_as_a_row_of_its_own() -> None:
    template = ChatTemplate(tiny_tokenizer(FORGETS_THOUGHTS))
    envs: list[Any] = [EchoEnv({"t0": "truncate"})]
    said = scripted(template, "<think>x</think>a")
    (cut,) = collect(envs, said, template, ["t0"], max_episode_tokens=500)
    assert [any(row.acted) for row in cut.rows] == [True, False]
    assert template.decode(cut.rows[-1].ids).endswith("now?<|im_end|>\n<|im_start|>assistant\n")


def test_an_episode_never_grows_past_its_token_budget() -> None:
    template = ChatTemplate(tiny_tokenizer())
    for budget in (40, 61, 89, 118):
        actor = engine(template, max_new_tokens=50)
        for record in collect(
            [EchoEnv(), EchoEnv()], actor, template, TASKS[:3], max_episode_tokens=budget
        ):
            assert all(len(row.ids) <= budget for row in record.rows)
            assert record.terminated or record.truncated


def test_an_episode_that_the_budget_cut_is_no_success_whatever_it_earned_before() -> None:
    template = ChatTemplate(tiny_tokenizer())
    (whole,) = collect(
        [EchoEnv()], scripted(template, "b"), template, ["t1"], max_episode_tokens=500
    )
    assert (whole.success, whole.episode_return) == (True, 2.0)
    first_action = whole.rows[0].ends_action.index(True) + 1
    (cut,) = collect(
        [EchoEnv()], scripted(template, "b"), template, ["t1"], max_episode_tokens=first_action + 1
    )
    assert (cut.truncated, cut.num_steps, cut.episode_return) == (True, 1, 1.0)
    assert not cut.success


def test_a_prompt_longer_than_the_budget_is_a_truncated_episode_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    template = ChatTemplate(tiny_tokenizer())
    (record,) = collect([EchoEnv()], scripted(template), template, ["t0"], max_episode_tokens=10)
    assert (record.truncated, record.rows, record.num_steps, record.success) == (True, [], 0, False)
    assert "--max_episode_tokens 10" in caplog.text


def test_actions_cut_by_the_token_limit_are_counted() -> None:
    template = ChatTemplate(tiny_tokenizer())
    actor = GenerationEngine(tiny_model(), [], max_new_tokens=3)
    (record,) = collect([EchoEnv()], actor, template, ["t0"], max_episode_tokens=500)
    assert record.num_actions_truncated == 2
    closing = record.rows[0].ids[record.rows[0].ends_action.index(True) + 1]
    assert closing == template.end_of_turn_id  # the cut action is closed, by context
    assert not record.rows[0].acted[record.rows[0].ends_action.index(True) + 1]


def test_an_environment_that_raises_makes_its_episode_invalid_and_is_replaced() -> None:
    template = ChatTemplate(tiny_tokenizer())
    envs: list[Any] = [EchoEnv({"t0": "raise"}), EchoEnv({"t0": "raise"})]
    before = list(envs)
    records = collect(
        envs, scripted(template), template, TASKS, max_episode_tokens=500, make_env=EchoEnv
    )
    assert [record.task_id for record in records if record.invalid] == ["t0"]
    assert not records[0].success
    assert sum(env.closed for env in before) == 1
    assert all(not env.closed for env in envs)


def test_where_every_episode_fails_the_cause_is_raised() -> None:
    template = ChatTemplate(tiny_tokenizer())
    with pytest.raises(RuntimeError, match=r"every one of 1 episodes.*the disk is gone"):
        collect(
            [EchoEnv({"t0": "raise"})], scripted(template), template, ["t0"], max_episode_tokens=500
        )


def test_where_the_environment_calls_every_episode_invalid_the_run_ends() -> None:
    template = ChatTemplate(tiny_tokenizer())
    with pytest.raises(RolloutError, match=r"every one of 2 episodes failed.*the pipe burst"):
        collect(
            [EchoEnv({"t0": "invalid", "t1": "invalid"})],
            scripted(template),
            template,
            ["t0", "t1"],
            max_episode_tokens=500,
        )


def test_what_the_environment_calls_invalid_is_invalid() -> None:
    template = ChatTemplate(tiny_tokenizer())
    record, _ = collect(
        [EchoEnv({"t0": "invalid"})],
        scripted(template),
        template,
        ["t0", "t1"],
        max_episode_tokens=500,
    )
    assert record.invalid
    assert not record.success


def test_a_logged_episode_can_be_stepped_again() -> None:
    template = ChatTemplate(tiny_tokenizer())
    for record in collect(
        [EchoEnv()], engine(template), template, TASKS, max_episode_tokens=500, seed=3
    ):
        line, env = episode_json(record), EchoEnv()
        env.reset(seed=line["seed"], options={"task_id": line["task_id"]})
        rewards = [env.step(step["text"])[1] for step in line["steps"]]
        assert rewards == [step["reward"] for step in line["steps"]]


class CalculatorEnv(EchoEnv):
    """Answers in the middle of the message: its text follows the action without any markers."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        _, reward, terminated, truncated, info = super().step(action)
        info |= {"messages": [], "continuation": "text", "stop": ["="]}
        return "" if terminated else " 4<|im_end|>", reward, terminated, truncated, info


@pytest.mark.parametrize("source", [None, FORGETS_THOUGHTS])
def test_text_that_continues_a_message_is_appended_raw_and_without_power(
    source: str | None,
) -> None:
    template = ChatTemplate(tiny_tokenizer(source))
    actor = ScriptedEngine(lambda *_: "2+2=", template.encode, template.encode("=")[0])
    (record,) = collect([CalculatorEnv()], actor, template, ["t0"], max_episode_tokens=500)
    (row,) = record.rows
    first = row.acted.index(True)
    between = [
        token for token, acted in zip(row.ids[first:], row.acted[first:], strict=True) if not acted
    ]
    assert template.decode(between) == " 4<\u2060|im_end|>"
    assert template.end_of_turn_id not in between
