"""Targets: the same for every layout, whole over an update,
and from the right end of an episode.
"""

from __future__ import annotations

import copy
import dataclasses
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.wrappers import TimeLimit
from token_worlds import (
    CPU,
    Microwave,
    episode,
    gradient,
    one_row_a_step,
    play,
    policy_with_values,
    settings,
    some_episodes,
    targets_of,
    tiny_policy,
)

from fctncalling.algorithms.batch import acted_tokens, build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord, action_facts
from fctncalling.algorithms.losses import Targets
from fctncalling.algorithms.minibatches import Passes, make_batch, make_passes, microbatches
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import accumulate_gradients, find_algorithm
from fctncalling.algorithms.progress_features import progress_features
from fctncalling.algorithms.targets import compute_targets
from fctncalling.algorithms.values import DECAY, NUM_FEATURES, RIDGE, WeightedValues

torch.set_num_threads(1)


def test_token_mean_weighs_tokens_and_action_mean_weighs_actions_alike() -> None:
    policy = policy_with_values()
    episodes = [
        episode([(4, 1.0), (1, 0.0)], terminated=True),
        episode([(2, 0.0)], terminated=True),
    ]
    for aggregation, wanted in (
        ("token_mean", [1.0] * 7),
        ("action_mean", [0.25] * 4 + [1.0] + [0.5] * 2),
        ("row_mean", [0.2] * 5 + [0.5] * 2),
    ):
        got = targets_of(policy, episodes, settings(loss_aggregation=aggregation)).loss_weights
        assert got.tolist() == pytest.approx(wanted)


def test_one_row_an_episode_and_one_row_a_step_are_the_same_learning() -> None:
    policy = policy_with_values()
    episodes = play(policy, lambda: TimeLimit(Microwave(), 3), 8, torch.Generator().manual_seed(1))
    assert any(record.truncated for record in episodes)
    stepwise = [one_row_a_step(record) for record in episodes]
    for got, wanted in zip(
        targets_of(policy, stepwise, settings()),
        targets_of(policy, episodes, settings()),
        strict=True,
    ):
        assert torch.allclose(got.float(), wanted.float(), atol=1e-5)
    assert torch.allclose(
        gradient(policy, stepwise, settings(entropy_coef=0.0)),
        gradient(policy, episodes, settings(entropy_coef=0.0)),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("ending", "bootstrap", "reaches_past_the_end"),
    [
        ({"terminated": True}, True, False),
        ({"truncated": True}, True, True),
        ({"truncated": True}, False, False),
        ({"terminated": True, "truncated": True}, True, False),
    ],
)
def test_a_truncated_episode_goes_on_with_the_value_after_its_last_token(
    ending: dict[str, bool], bootstrap: bool, reaches_past_the_end: bool
) -> None:
    policy = policy_with_values()
    record = episode([(3, 0.5)], **ending)
    config = settings(truncation_bootstrap=bootstrap, gamma=0.9, lam=0.8)
    batch = make_batch(record.rows)
    with torch.no_grad():
        end = policy.values_at(batch, torch.tensor([len(record.rows[0].ids) - 1])).item()
    assert abs(end) > 0.01
    returns = targets_of(policy, [record], config).returns.tolist()
    assert returns == pytest.approx(
        [0.5 + (0.9 * end if reaches_past_the_end else 0.0)] * 3, abs=1e-5
    )


def test_whitening_covers_all_action_tokens_of_the_update() -> None:
    policy = policy_with_values()
    targets = targets_of(policy, some_episodes(policy), settings(num_mini_batch=4))
    assert targets.advantages.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert targets.advantages.std(correction=0).item() == pytest.approx(1.0, abs=1e-3)
    assert not torch.allclose(targets.raw_advantages, targets.advantages)


def test_the_control_experiment_keeps_the_advantages_and_breaks_their_order() -> None:
    policy = policy_with_values()
    episodes = some_episodes(policy)
    honest, shuffled = (
        targets_of(policy, episodes, settings(permute_advantages=flag)) for flag in (False, True)
    )
    assert not torch.equal(honest.advantages, shuffled.advantages)
    assert torch.equal(honest.advantages.sort().values, shuffled.advantages.sort().values)
    assert torch.equal(honest.returns, shuffled.returns)


def test_records_that_do_not_fit_together_are_refused() -> None:
    record = episode([(2, 1.0)], terminated=True)
    for change, told in (
        ({"acted": record.rows[0].acted[1:]}, "one entry a token"),
        ({"acted": [True] * len(record.rows[0].ids)}, "first token is acted"),
        ({"rewards": [1.0] * len(record.rows[0].ids)}, "was not acted"),
    ):
        row = dataclasses.replace(record.rows[0], **change)
        with pytest.raises(ValueError, match=told):
            acted_tokens([dataclasses.replace(record, rows=[row])])


def test_a_row_without_an_acted_token_has_no_number() -> None:
    record = episode([(2, 1.0)], terminated=True)
    context = TokenRecord([1, 2], [False] * 2, [False] * 2, [0.0] * 2, [0.0] * 2)
    experience = build_experience([dataclasses.replace(record, rows=[context, *record.rows])], CPU)
    assert [experience.rows[row].ids for row in experience.tokens.row] == [record.rows[0].ids] * 2


def test_every_row_is_in_one_minibatch_of_each_epoch_even_where_they_do_not_divide() -> None:
    experience = build_experience(some_episodes(tiny_policy(), 11), CPU)
    config, generator = settings(num_mini_batch=4), torch.Generator().manual_seed(0)
    plan = Passes(experience, config).minibatches(generator)
    sizes = [sum(map(len, minibatch)) for minibatch in plan]
    assert sorted(row for minibatch in plan for group in minibatch for row in group) == list(
        range(11)
    )
    assert max(sizes) - min(sizes) <= 1
    few = build_experience(some_episodes(tiny_policy(), 2), CPU)
    assert len(Passes(few, config).minibatches(generator)) == 2


def test_microbatches_keep_to_their_budget_and_put_like_lengths_together() -> None:
    lengths = [5, 100, 7, 90, 6, 300]
    groups = microbatches(lengths, max_tokens=210)
    assert sorted(index for group in groups for index in group) == list(range(6))
    assert groups == [[0, 4, 2], [3, 1], [5]]  # 300 fits nowhere: a group of its own
    assert len(microbatches([8] * 8, max_tokens=10**6, num_parts=4)) == 4


# Values weighed by what they know (--lam auto), against a plain reference in float64.

USER, TOOL = [{"role": "user"}], [{"role": "tool"}]
PLAIN_CONFIG = settings(gamma=0.9, entropy_coef=0.0, group_size=2, max_microbatch_tokens=64)


Known = tuple[dict[int, list[float]], Any]  # sums by turn, moments of features and outcome


class PlainToken:
    """An acted token with what the reference knows of it."""

    def __init__(self, reward: float, ends: bool, turn: int, features: Any) -> None:
        self.reward, self.ends, self.turn = reward, ends, turn
        self.features = features  # less the others' mean, once all are known
        self.togo = self.baseline = 0.0
        self.value = self.lam = self.advantage = 0.0


def turns_of_tasks(seed: int) -> list[EpisodeRecord]:
    """Return episodes of several turns: groups of two, one alone, a cut one, an invalid one."""
    draw = torch.Generator().manual_seed(seed)
    found = []
    for number, task in enumerate("aabbcaa"):
        lengths = torch.randint(1, 4, (2 + number % 3,), generator=draw).tolist()
        rewards = torch.rand(len(lengths), generator=draw).tolist()
        record = episode(list(zip(lengths, rewards, strict=True)), terminated=number != 3)
        record.task_id, record.truncated = task, number == 3
        record.messages = [USER, *[USER if n % 2 else TOOL for n in range(len(lengths) - 1)]]
        record.invalid = number == 6
        record.ground_truth = [["a()", "b()"], ["c()"]]
        left = torch.randint(0, 4, (len(lengths) + 1,), generator=draw).tolist()
        record.places = [(0, calls, calls % 2 == 0) for calls in left]
        found.append(record)
    return found


def plain_tokens(
    records: list[EpisodeRecord], critic: list[float], ends: list[float]
) -> tuple[list[list[PlainToken]], list[Any]]:
    """Return the tokens of each episode, and the features behind each."""
    values, turns, lines, behind = iter(critic), iter(action_facts(records).turns), [], []
    for record, end in zip(records, ends, strict=True):
        line: list[PlainToken] = []
        progress = iter(progress_features(record))
        for row in record.rows:
            for acted, ends_action, reward in zip(
                row.acted, row.ends_action, row.rewards, strict=True
            ):
                if acted and (not line or line[-1].ends):
                    turn, known = next(turns), next(progress)
                if acted:
                    features = np.array([next(values), *known])
                    line.append(PlainToken(reward, ends_action, turn, features))
        behind.append(np.array([end, *next(progress)]))
        togo = 0.0
        for token in reversed(line):
            togo = token.togo = token.reward + (0.9 if token.ends else 1.0) * togo
        lines.append(line)
    firsts = [
        (record, line[0].togo, line[0].features)
        for record, line in zip(records, lines, strict=True)
    ]
    for number, (record, line) in enumerate(zip(records, lines, strict=True)):
        others = [first for first in firsts if first[0] is not record]
        peers = [first for first in others if first[0].task_id == record.task_id] or others
        expected = fmean(togo for _, togo, _ in peers)
        at_start = np.mean([features for *_, features in peers], axis=0)
        behind[number] = behind[number] - at_start
        for token in line:
            token.features = token.features - at_start
            token.baseline = expected
            expected -= token.reward
    return lines, behind


def plain_advantages(
    records: list[EpisodeRecord], lines: list[list[PlainToken]], ends: list[Any], known: Known
) -> None:
    """Set value, lambda and advantage of each token; ends: the features behind the episodes."""
    sums, slopes = known[0], plain_slopes(known[1])
    pairs = {t: zip(s[::2], s[1::2], strict=True) for t, s in sums.items()}
    shares = {t: [min(1.0, max(0.0, a / b)) for a, b in each] for t, each in pairs.items()}
    for record, line, end in zip(records, lines, ends, strict=True):
        for token in line:
            weight, token.lam = shares.get(token.turn, [0.0, 1.0])
            token.value = token.baseline + weight * float(token.features @ slopes)
        later = weight * (line[-1].baseline - line[-1].reward + float(end @ slopes))
        later, trace, ahead = 0.0 if record.terminated else later, 0.0, 0.0
        for token in reversed(line):
            gamma, decay = (0.9, trace) if token.ends else (1.0, 1.0)
            ahead = token.reward + gamma * later - token.value + gamma * decay * ahead
            token.advantage, later, trace = ahead, token.value, token.lam


def plain_slopes(moments: Any) -> Any:
    return np.linalg.solve(moments[:, :-1] + RIDGE * np.eye(len(moments)), moments[:, -1])


def plain_learn(records: list[EpisodeRecord], lines: list[list[PlainToken]], known: Known) -> Known:
    sums, moments = known
    turns = {token.turn for line in lines for token in line} | sums.keys()
    sums = {turn: [DECAY * each for each in sums.get(turn, [0.0] * 4)] for turn in turns}
    names = [*dict.fromkeys(record.task_id for record in records)]
    new = [np.zeros_like(moments), np.zeros_like(moments)]  # of the groups' halves
    for record, line in zip(records, lines, strict=True):
        for before, token in zip([None, *line], line, strict=False):
            if record.terminated and (before is None or before.ends):
                row = np.append(token.features, token.togo - token.baseline)
                new[names.index(record.task_id) % 2] += np.outer(token.features, row)
    slopes = [plain_slopes(DECAY * moments + other) for other in new[::-1]]
    ended = [
        (line, [token.features @ slopes[names.index(record.task_id) % 2] for token in line])
        for record, line in zip(records, lines, strict=True)
        if record.terminated
    ]
    for line, guesses in ended:
        for token, guess in zip(line, guesses, strict=True):
            sums[token.turn][0] += guess * (token.togo - token.baseline)
            sums[token.turn][1] += guess**2
    weights = {turn: min(1.0, max(0.0, of_turn[0] / of_turn[1])) for turn, of_turn in sums.items()}
    for line, guesses in ended:
        first = weights[line[0].turn] * guesses[0]
        for before, token, guess in zip(line, line[1:], guesses[1:], strict=False):
            if before.ends:
                outcome = token.togo - token.baseline
                sums[token.turn][2] += (outcome - weights[token.turn] * guess) ** 2
                sums[token.turn][3] += (outcome - first) ** 2
    return sums, DECAY * moments + sum(new)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("stepwise", [True, False])
def test_weighed_values_targets_and_gradients_are_those_of_a_plain_reference(
    shared: bool, stepwise: bool
) -> None:
    policy, source = policy_with_values(), WeightedValues()
    config = dataclasses.replace(PLAIN_CONFIG, share_prefixes=shared)
    # As left by earlier updates: of turn 3 nothing is known, lambda is .5 and .9 before.
    draw = np.random.default_rng(0).normal(size=(NUM_FEATURES, NUM_FEATURES + 1))
    known: Known = (
        {1: [0.5, 2.0, 1.0, 2.0], 2: [0.4, 0.5, 0.9, 1.0]},
        np.column_stack((draw[:, 1:] @ draw[:, 1:].T, draw[:, 0])),
    )
    source.load_state({"sums": known[0], "moments": known[1].tolist()})
    for update in range(2):
        records = turns_of_tasks(update)
        valid = [record for record in records if not record.invalid]
        laid_out = [one_row_a_step(each) if stepwise else each for each in records]
        targets, ends, gradient_found = learned(policy, laid_out, config, source)
        lines, behind = plain_tokens(valid, targets.old_values.double().tolist(), ends)
        plain_advantages(valid, lines, behind, known)
        tokens = [token for line in lines for token in line]
        for name, field in (("values", "value"), ("raw_advantages", "advantage")):
            wanted = [getattr(token, field) for token in tokens]
            assert getattr(targets, name).tolist() == pytest.approx(wanted, abs=2e-5)
        wanted = [token.advantage + token.value for token in tokens]
        assert targets.returns.tolist() == pytest.approx(wanted, abs=2e-5)
        reference = plain_gradient(policy, valid, tokens, targets)
        assert torch.allclose(gradient_found.double(), reference, atol=2e-5, rtol=1e-4)
        known = plain_learn(valid, lines, known)
        state = source.state()
        for turn, wanted in known[0].items():
            assert state["sums"][turn] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
        assert np.allclose(state["moments"], known[1], atol=1e-5)


def learned(
    policy: ActorCritic,
    records: list[EpisodeRecord],
    config: TrainConfig,
    source: WeightedValues,
) -> tuple[Targets, list[float], torch.Tensor]:
    """Return targets, the critic's values behind the episodes, and the update's gradient."""
    experience = build_experience(records, CPU)
    passes = make_passes(experience, policy, config)
    generator = torch.Generator().manual_seed(0)
    plan = passes.minibatches(generator)
    algorithm = find_algorithm("TPPO")
    parts = (policy, passes, plan, algorithm, config, generator)
    plain = compute_targets(*parts[:4], dataclasses.replace(config, lam=0.5), generator)
    ends = plain.bootstrap[experience.num_acted.cumsum(0) - 1].tolist()
    targets = compute_targets(*parts, source=source)
    accumulate_gradients(policy, passes, targets, plan[0], algorithm, config)
    source.learn(experience, targets.old_values, config)
    found = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
    return targets, ends, found


def plain_gradient(
    policy: ActorCritic, records: list[EpisodeRecord], tokens: list[PlainToken], targets: Targets
) -> torch.Tensor:
    """Return the gradient of policy and value loss in float64, one row at a time, at ratio 1."""
    exact = copy.deepcopy(policy).double()
    exact.zero_grad()
    at, total = 0, torch.zeros((), dtype=torch.float64)
    for record in records:
        (row,) = record.rows
        ids, places = torch.tensor([row.ids]), torch.tensor(row.acted).nonzero()[:, 0]
        states = exact.model.model(ids).last_hidden_state[0, places - 1]
        logprobs = exact.model.lm_head(states).log_softmax(-1)
        logprobs = logprobs[range(len(places)), ids[0, places]]
        values = exact.value_head.out(states)[:, 0]
        part = slice(at, at := at + len(places))
        whitened = targets.advantages[part].double()
        returns = torch.tensor([t.advantage + t.value for t in tokens[part]], dtype=torch.float64)
        total = total - (logprobs * whitened).sum()
        total = total + 0.5 * 0.5 * (values - returns).square().sum()
    torch.autograd.backward(total / at)
    return torch.cat([p.grad.flatten() for p in exact.parameters() if p.grad is not None])


@pytest.mark.parametrize(
    ("knows", "weight", "lam"),
    [("nothing", 0.0, 1.0), ("tasks", 1.0, 1.0), ("tasks and moments", 1.0, 0.0)],
)
def test_weight_and_lambda_tell_what_a_critic_knows(knows: str, weight: float, lam: float) -> None:
    """Half of the tasks are never solved; of the others a coin decides, at the first action."""
    records, values = [], list[float]()
    for number in range(256):
        hard, won = number % 2 == 0, number % 4 == 1
        record = episode([(1, 0.0), (1, float(won))], terminated=True)
        record.task_id = f"task {number}"
        records.append(record)
        chance = 0.0 if hard else 0.5
        luck = 0.5 + (0.3 if number % 8 < 4 else -0.3)  # of no task and no outcome
        values += {
            "nothing": [luck, luck],
            "tasks": [chance, chance],
            "tasks and moments": [chance, float(won)],
        }[knows]
    source, config = WeightedValues(), settings(gamma=1.0)
    experience = build_experience(records, CPU)
    for _ in range(12):  # the first update's lambda, of values without a weight, fades
        source.learn(experience, torch.tensor(values), config)
    assert source.weight(1) == pytest.approx(weight, abs=0.05)
    assert source.lam(1) == pytest.approx(lam, abs=0.1)
