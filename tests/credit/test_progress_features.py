"""A critic that sees progress reads how far an episode is along the truth, and nothing later."""

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
from torch import nn

from fctncalling.algorithms.algorithm import Algorithm
from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import ScriptedEngine
from fctncalling.algorithms.minibatches import bootstrap_values, make_passes
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.progress_features import (
    NUM_PROGRESS_FEATURES,
    SCALE,
    progress_features,
)
from fctncalling.algorithms.ppo import ALGORITHMS, update
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.supervised.critic_fit import critic_samples, fit_critic
from fctncalling.data.types import Call, Episode, StepRecord
from fctncalling.training.training_run import make_optimisers

CD, LS = Call("cd", {"folder": "a"}), Call("ls", {})
TRUTH = [['cd(folder="a")', "ls()"], [], ["ls()"]]
SEES: dict[str, Any] = {"critic_sees_progress": True}
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
        [it * 3 / SCALE for it in row] for row in progress_features(played(*actions, places=where))
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
    assert [before[1], behind[0], behind[6]] == [SCALE, SCALE, SCALE]
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
    return [
        dataclasses.replace(
            played((0, [CD] if n % 2 else [], None, 0.0), (0, [], None, n % 2), **ending),
            task_id=f"task_{n}",
        )
        for n in range(num_tasks)
    ]


def test_the_head_learns_returns_that_progress_alone_tells() -> None:
    explained = {}
    for sees in ("episode", "progress"):
        config = settings(critic_sees=sees, gamma=1.0, critic_lr=1e-3)
        policy = tiny_policy(**config.critic_shape)
        records = [*worlds(60, terminated=True)]
        found = fit_critic(
            policy.value_head,
            [critic_samples(policy, records, config)],
            config,
            torch.Generator().manual_seed(0),
        )
        explained[sees] = found["critic_fit/explained_variance"]
    # Before the first action nothing is told: half of the tokens keep all of their variance.
    assert explained["episode"] < 0.1
    assert explained["progress"] == pytest.approx(0.5, abs=0.1)


def test_the_policy_does_not_see_it_and_a_cut_episode_is_worth_what_its_end_tells() -> None:
    config = settings(critic_sees="progress", critic_head="linear")
    policy, plain = tiny_policy(**config.critic_shape), tiny_policy(critic_head="linear")
    nn.init.zeros_(policy.value_head.out.weight)
    with torch.no_grad():
        policy.value_head.out.weight[0, -NUM_PROGRESS_FEATURES] = 1.0  # nothing is missing
    records = [played((0, [CD, LS], None, 0.0)), played((0, [CD], None, 0.0))]
    passes = make_passes(build_experience(records, CPU), policy, config)
    batch, _ = passes.batch([0, 1])
    assert policy(batch).values.tolist() == [0.0, 0.0]
    assert torch.equal(policy(batch).logprobs, plain(batch._replace(progress=None)).logprobs)
    tppo: Algorithm = ALGORITHMS["TPPO"]
    behind = bootstrap_values(policy, passes, tppo, SINGLE_PROCESS)
    assert behind.tolist() == pytest.approx([SCALE / 3, 0.0])


def test_an_update_learns_with_it_and_needs_a_truth() -> None:
    config = settings(critic_sees="progress", num_mini_batch=2)
    policy = tiny_policy(**config.critic_shape)
    optimisers = make_optimisers(policy, config)
    metrics = update(policy, optimisers, worlds(8, terminated=True), config, torch.Generator())
    assert metrics["losses/critic_grad_norm"] > 0
    without = [dataclasses.replace(each, ground_truth=None) for each in worlds(2)]
    with pytest.raises(SettingError, match="--critic_sees progress: the info of 2 episodes has no"):
        update(policy, optimisers, without, config, torch.Generator())
    # An update of irrelevance tasks alone is none: they have no truth, nothing is to be called.
    irrelevant = [dataclasses.replace(each, category="irrelevance") for each in without]
    assert update(policy, optimisers, irrelevant, config, torch.Generator())
    of_team = [dataclasses.replace(each, role="planner") for each in worlds(2)]
    with pytest.raises(SettingError, match="--critic_sees progress: the episodes have roles"):
        update(policy, optimisers, of_team, config, torch.Generator())
