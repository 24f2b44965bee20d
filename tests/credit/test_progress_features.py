"""Progress: how far an episode is along the truth, and nothing later; values that know it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from players import perfect_texts, shop_env, shop_task
from tiny_models import tiny_tokenizer
from token_worlds import CPU, episode, settings, tiny_policy

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import update
from fctncalling.algorithms.progress_features import NUM_PROGRESS_FEATURES, progress_features
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.values import Values, WeightedValues
from fctncalling.data.types import Call, Episode, StepRecord
from fctncalling.training.training_run import make_optimisers

CD, LS = Call("cd", {"folder": "a"}), Call("ls", {})
TRUTH = [['cd(folder="a")', "ls()"], [], ["ls()"]]
calls = st.lists(st.sampled_from([CD, LS, Call("cd", {"folder": "b"})]), max_size=3)
steps = st.tuples(calls, st.sampled_from([None, "tool_error"]), st.sampled_from([0.0, 1 / 3]))


def played(
    *actions: tuple[int, list[Call], str | None, float],
    truth: Any = TRUTH,
    places: Any = (),
    **ending: Any,
) -> EpisodeRecord:
    """Return the record of an episode of actions (turn, calls, error, reward)."""
    taken = [
        StepRecord(turn, "", calls=made, error=error, reward=paid)
        for turn, made, error, paid in actions
    ]
    record = episode([(1, each.reward) for each in taken], ground_truth=truth, **ending)
    record.episode = Episode("task", "multi_turn_base", taken)
    record.places = list(places)
    return record


def test_the_features_are_what_the_places_tell_and_count() -> None:
    """Of a strict reward, which pays nothing before the end."""
    actions = (0, [CD, LS], None, 0.0), (0, [LS, LS], "tool_error", 0.0), (1, [], "no_call", 0.0)
    where = (0, 3, True), (0, 2, True), (1, 1, False), (1, 1, False)
    first, second, third, end = (
        [it * 3 for it in row] for row in progress_features(played(*actions, places=where))
    )
    long = (len(TRUTH[0][0]) + len("ls()")) / 100
    later = [2 * it for it in (1.0, 1.0, 0.0, 0.5, 0.02)]  # two later turns, with one call
    assert first == pytest.approx([0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, long, *later])
    # Two calls were made, of which one was right, whatever their texts.
    assert second == pytest.approx([0, 1, 0, 0, 0, 1, 1, 0, 1, 0, 0, long, *later])
    # The second turn has nothing to call and one turn behind it; the path was left.
    assert third == pytest.approx([1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0.04])
    # Behind the last step, where the episode was cut: it was of the second turn.
    assert end == pytest.approx([1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0.04])


def test_without_places_calls_are_counted_and_no_path_is_known() -> None:
    truth = [{"cd": {"folder": ["a", "b"]}}]
    before, behind = progress_features(played((0, [CD], None, 1.0), truth=truth))
    assert [before[1], behind[0], behind[6]] == [1, 1, 1]
    assert [*before[8:10], *behind[8:10]] == [0, 0, 0, 0]


@given(st.lists(steps, min_size=2, max_size=5), st.lists(steps, min_size=5, max_size=5))
def test_a_feature_depends_on_nothing_that_came_later(ours: list[Any], others: list[Any]) -> None:
    one = [(number // 2, *step) for number, step in enumerate(ours)]
    for cut in range(1, len(ours)):
        rest = [(n // 2, *step) for n, step in enumerate(others) if cut <= n < len(ours)]
        features, changed = (
            progress_features(played(*actions)) for actions in (one, one[:cut] + rest)
        )
        assert features[: cut + 1] == changed[: cut + 1]
        assert [len(row) for row in features] == [NUM_PROGRESS_FEATURES] * (len(one) + 1)


def test_an_episode_that_the_budget_cuts_is_read_like_one_that_ends() -> None:
    """Else the value of every action would know that the episode is going to be cut."""
    template = ChatTemplate(tiny_tokenizer())
    task = shop_task(["sell(item='apple', price=1)"], ["sell(item='fig', price=2)"])

    def play(budget: int) -> EpisodeRecord:
        texts = iter(perfect_texts(task))
        engine = ScriptedEngine(lambda *_: next(texts), template.encode, template.end_of_turn_id)
        return collect([shop_env(task)], engine, template, [task.id], max_episode_tokens=budget)[0]

    whole = play(5000)
    ends = [at for at, ends in enumerate(whole.rows[0].ends_action) if ends]
    for number, end in enumerate(ends[:-1], 1):  # behind the second step begins another turn
        cut = play(end + 2)
        assert (whole.terminated, cut.truncated, cut.num_steps) == (True, True, number)
        assert cut.ground_truth == whole.ground_truth == task.ground_truth
        assert progress_features(cut) == progress_features(whole)[: number + 1]


def worlds(num_tasks: int, **ending: Any) -> list[EpisodeRecord]:
    """Return episodes of equal tokens, whose returns only the calls that were made tell."""
    records = []
    for number in range(num_tasks):
        right = number // 2 % 2
        actions = (0, [CD] * (3 - 2 * right), None, 0.0), (0, [], None, float(right))
        records.append(dataclasses.replace(played(*actions, **ending), task_id=f"task_{number}"))
    return records


def values_after(
    records: list[EpisodeRecord], updates: int, **changes: Any
) -> tuple[WeightedValues, Values, dict[str, float]]:
    """Return values of records after updates with them, and the last one's metrics."""
    source, config = WeightedValues(), settings(gamma=1.0, **changes)
    experience = build_experience(records, CPU)
    of_critic = torch.zeros_like(experience.tokens.rewards)
    metrics = dict[str, float]()
    for _ in range(updates):
        metrics = source.learn(experience, of_critic, config)
    nothing = torch.zeros(len(records))
    return source, source.values(experience, Values(of_critic, nothing), config), metrics


def test_values_know_returns_that_progress_alone_tells_after_two_updates() -> None:
    records = worlds(60, terminated=True)
    _, values, metrics = values_after(records, 3)
    # Half is won; before the first action nothing tells which, behind it the calls do.
    assert values.at_tokens[0::2].tolist() == pytest.approx([0.5] * 60, abs=0.02)
    won = [float(number // 2 % 2) for number in range(60)]
    assert values.at_tokens[1::2].tolist() == pytest.approx(won, abs=0.1)
    assert metrics["critic/weight"] > 0.95
    assert metrics["critic/lambda"] < 0.1
    _, blind, metrics = values_after(records, 3, critic_sees="episode")
    assert blind.at_tokens.tolist() == pytest.approx([0.5] * 120, abs=0.02)
    assert metrics["critic/weight"] == 0.0


def test_a_cut_episode_is_worth_what_its_end_tells() -> None:
    records = worlds(60, terminated=True)
    cut = [played((0, [CD] * (3 - 2 * right), None, 0.0)) for right in (1, 0)]
    cut = [dataclasses.replace(each, task_id=f"cut_{n}") for n, each in enumerate(cut)]
    source, *_ = values_after(records, 3)
    experience = build_experience([*cut, *records], CPU)
    nothing = torch.zeros_like(experience.tokens.rewards)
    config = settings(gamma=1.0)
    ends = source.values(experience, Values(nothing, torch.zeros(62)), config).bootstrap
    assert ends.tolist() == pytest.approx([1.0, 0.0, *[0.0] * 60], abs=0.1)
    config = settings(gamma=1.0, truncation_bootstrap=False)
    ends = source.values(experience, Values(nothing, torch.zeros(62)), config).bootstrap
    assert not ends.any()


def test_without_a_truth_or_with_roles_progress_is_not_known() -> None:
    """An update of irrelevance tasks alone has no truth, and knows that nothing is to be called."""
    without = [dataclasses.replace(each, ground_truth=None) for each in worlds(8, terminated=True)]
    irrelevant = [dataclasses.replace(each, category="irrelevance") for each in without]
    of_team = [dataclasses.replace(each, role="planner") for each in worlds(8, terminated=True)]
    for records, known in ((without, 0.0), (of_team, 0.0), (irrelevant, 1.0)):
        assert values_after(records, 3)[2]["critic/knows_progress"] == known
    policy, config = tiny_policy(), settings(num_mini_batch=2)
    assert update(policy, make_optimisers(policy, config), of_team, config, torch.Generator())
