"""--critic places: values of places on the truth's path, by hand and by a slow reference."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import logging
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from token_worlds import CPU, episode, one_row_a_step, settings, targets_of, tiny_policy

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.place_values import LENT, PRIOR, PlaceValues
from fctncalling.algorithms.ppo import update
from fctncalling.algorithms.values import Values
from fctncalling.lab.viewer import load_run, page_data
from fctncalling.training.training_run import make_optimisers
from train_fctncalling import main as train

GAMMA = 0.9
AT_2, AT_1, OFF_1 = (0, 2, True), (0, 1, True), (0, 1, False)


def placed(
    *actions: tuple[int, float, Any], task: str = "task", start: int = 0, **ending: Any
) -> EpisodeRecord:
    """Return an episode of actions (number of tokens, reward, place), ended unless said else."""
    ending = {"terminated": True, **ending}
    record = episode([(length, reward) for length, reward, _ in actions], **ending)
    record.task_id, record.places = task, [place for *_, place in actions]
    record.episode_return = sum(reward for _, reward, _ in actions)
    record.success = record.episode_return > 0
    record.next_turn = 0
    setattr(record, "start", start)  # noqa: B010 - of another branch's field
    return record


def values_of(source: PlaceValues, *records: EpisodeRecord, **changes: Any) -> Values:
    config = settings(critic="places", gamma=GAMMA, **changes)
    experience = build_experience(records, CPU)
    blank = torch.zeros_like(experience.tokens.rewards)
    return source.values(experience, Values(blank, torch.zeros(len(records))), config)


def remember(source: PlaceValues, *records: EpisodeRecord) -> dict[str, float]:
    experience = build_experience(records, CPU)
    config = settings(critic="places", gamma=GAMMA)
    return source.learn(experience, torch.zeros_like(experience.tokens.rewards), config)


def credit(*records: EpisodeRecord, **changes: Any) -> list[float]:
    """Return the advantage of each action, which is that of all of its tokens."""
    config = settings(critic="places", gamma=GAMMA, **changes)
    found = targets_of(tiny_policy(), list(records), config)
    experience = build_experience(records, CPU)
    by_action: dict[int, set[float]] = {}
    for action, value in zip(
        experience.tokens.action.tolist(), found.raw_advantages.tolist(), strict=True
    ):
        by_action.setdefault(action, set()).add(round(value, 6))
    assert all(len(each) == 1 for each in by_action.values())
    return [each.pop() for _, each in sorted(by_action.items())]


def test_the_table_by_hand() -> None:
    """Three episodes: one succeeds, one leaves the path at once, one fails at its last action."""
    won = placed((2, 0.0, AT_2), (1, 1.0, AT_1))
    left = placed((1, 0.0, AT_2), (1, 0.0, OFF_1))
    lost = placed((1, 0.0, AT_2), (3, 0.0, AT_1))
    # won: no other success, so the own return stands behind its first action, and V is 0.
    # left: V(2 to come) is the mean of .9 and 0; nobody else was off the path: the batch's mean.
    # lost: V(1 to come) is 1, and counts for 1 / (1 + PRIOR) behind the first action.
    weight = 1 / (1 + PRIOR)
    assert credit(won, left, lost) == pytest.approx(
        [GAMMA, 1.0, -0.45, -0.45, GAMMA * weight - 0.45, -1.0]
    )


def test_with_many_successes_only_the_wrong_action_is_blamed() -> None:
    source = PlaceValues()
    won = placed((1, 0.0, AT_2), (1, 1.0, AT_1))
    remember(source, *[won] * 4000)
    found = values_of(source, placed((1, 0.0, AT_2), (1, 0.0, AT_1)))
    assert found.at_tokens.tolist() == pytest.approx([GAMMA, 1.0])
    assert found.lam is not None
    assert found.lam[0] == pytest.approx(PRIOR / (2000 + PRIOR))


def reference(records: Sequence[EpisodeRecord]) -> list[float]:
    """Return r + V' - V of each action in Python's floats, by the definition, slowly."""

    def of_others(own: EpisodeRecord, place: Any) -> tuple[float | None, int]:
        means, successes = [], 0
        for other in records:
            at = [i for i, each in enumerate(other.places[: len(returns(other))]) if each == place]
            if other is not own and other.terminated and at and not other.invalid:
                means.append(sum(returns(other)[i] for i in at) / len(at))
                successes += bool(other.success)
        return (sum(means) / len(means) if means else None), successes

    def returns(record: EpisodeRecord) -> list[float]:
        paid = [
            r for row in record.rows for r, e in zip(row.rewards, row.ends_action, strict=True) if e
        ]
        found = itertools.accumulate(reversed(paid), lambda later, r: r + GAMMA * later)
        return list(found)[::-1]

    credit = []
    for own in records:
        if own.invalid:
            continue
        others = [returns(each)[0] for each in records if each is not own and not each.invalid]
        mates = [
            returns(each)[0]
            for each in records
            if each is not own and not each.invalid and each.task_id == own.task_id
        ]
        others = mates or others
        blank = sum(others) / len(others)
        number = len(returns(own))
        known = [of_others(own, place) for place in own.places] or [(None, 0)] * (number + 1)
        value = [blank if v is None else v for v, _ in known[:number]]
        end = 0.0 if own.terminated else known[number][0] or 0.0
        ahead = end  # value and advantage of what is behind, from the back
        paid = [a - GAMMA * b for a, b in itertools.pairwise([*returns(own), 0.0])]
        of_own = []
        for at in reversed(range(number)):
            of_own.append(paid[at] + GAMMA * ahead - value[at])
            share = PRIOR / (PRIOR + known[at][1])
            ahead = value[at] + share * of_own[-1]
        credit += of_own[::-1]
    return credit


def drawn_records(seed: int) -> list[EpisodeRecord]:
    rng, records = random.Random(seed), []
    for number in range(14):
        left, on, actions = 4, True, []
        while left:
            on, before = on and rng.random() < 0.8, (0, left, on)
            left -= 1
            paid = 0.1 * rng.random() + float(on and not left)
            actions.append((rng.randint(1, 3), paid, before))
        record = placed(*actions, task=f"task {number % 5}")
        record.success = on
        if number % 4 == 1:  # cut behind its second action
            record = placed(*actions[:2], task=record.task_id, terminated=False, truncated=True)
            record.places.append(actions[2][2])
            record.success = False
        record.invalid = number == 7
        records.append(record)
    return records


@pytest.mark.parametrize("seed", range(4))
def test_credit_is_that_of_a_slow_reference_however_rows_are_laid_out(seed: int) -> None:
    """Cut episodes go on with their place's value; an invalid member has no voice."""
    records = drawn_records(seed)
    expected = pytest.approx(reference(records), abs=1e-5)
    assert credit(*records) == expected
    assert credit(*map(one_row_a_step, records), share_prefixes=seed % 2 == 0) == expected


def test_memory_fades_leaves_the_own_episode_out_and_is_saved_exactly() -> None:
    won, lost = placed((1, 1.0, AT_1)), placed((1, 0.0, AT_1))
    source = PlaceValues()
    assert remember(source, won, won, lost)["critic/places"] == 1.0
    # two thirds of 1.5 remembered voices; the batch's other one failed
    assert values_of(source, lost, lost).at_tokens.tolist() == pytest.approx([1 / 2.5] * 2)
    assert values_of(source, won).at_tokens.tolist() == pytest.approx([1 / 1.5])
    buffer, other = io.BytesIO(), PlaceValues()
    torch.save(source.state(), buffer)
    buffer.seek(0)
    other.load_state(torch.load(buffer, weights_only=True))
    assert other.state() == source.state()
    assert torch.equal(values_of(other, lost).at_tokens, values_of(source, lost).at_tokens)


def test_episodes_that_the_truth_began_lend_at_most_three_voices() -> None:
    source = PlaceValues()
    remember(source, *[placed((1, 1.0, AT_1), start=2)] * 200, *[placed((1, 0.0, AT_1))] * 6)
    found = values_of(source, placed((1, 0.0, AT_1)))
    assert found.at_tokens.tolist() == pytest.approx([LENT / (3 + LENT)])
    assert values_of(source, placed((1, 0.0, AT_1), start=1)).at_tokens[0] > 0.97


def test_an_episode_without_places_has_its_return_less_others_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = [dataclasses.replace(each, places=[]) for each in drawn_records(0)]
    blank = reference(records)  # no place is known
    assert credit(*records) == pytest.approx(blank, abs=1e-5)
    source = PlaceValues()
    with caplog.at_level(logging.WARNING):
        metrics = [remember(source, *records) for _ in range(2)]
    assert [each["critic/placed_share"] for each in metrics] == [0.0, 0.0]
    assert len(caplog.messages) == 1
    assert '13 of 13 episodes have no info["place"]' in caplog.messages[0]


def test_an_update_moves_the_policy_by_it_and_no_head() -> None:
    config = settings(critic="places", lr=1e-2, num_mini_batch=2)
    policy = tiny_policy()
    head = [each.clone() for each in policy.critic_parameters()]
    before = [each.clone() for each in policy.policy_parameters()]
    source = PlaceValues()
    metrics = update(
        policy,
        make_optimisers(policy, config),
        drawn_records(1),
        config,
        torch.Generator().manual_seed(0),
        source=source,
    )
    assert source.state()
    assert metrics["losses/explained_variance"] > 0.2  # of the places' values
    assert all(map(torch.equal, policy.critic_parameters(), head))
    assert not all(map(torch.equal, policy.policy_parameters(), before))


@pytest.mark.prove
def test_a_run_by_places_resumes_to_the_same_bytes_and_its_page_finds_no_contradiction(
    tmp_path: Path,
) -> None:
    small = "--critic places --group_size 1 --episodes_per_update 16 --save_interval 1 --seed 3"
    small += " --eval_interval 0 --eval_episodes 1 --log_tokens_interval 1 --num_updates"
    for folder, *commands in (("whole", "3"), ("cut", "1", "3 --resume")):
        for updates in commands:
            words = f"{small} {updates} --results_dir {tmp_path / folder}"
            assert train(words.split()) == 0
    whole, cut = (
        next((tmp_path / folder).rglob("metrics.jsonl")).parent for folder in ("whole", "cut")
    )
    lines, others = (
        [
            line
            for line in (folder / "metrics.jsonl").read_bytes().splitlines()
            if b"losses/" in line
        ]
        for folder in (whole, cut)  # without the evaluation at the end of the first part
    )
    assert lines == others
    last = json.loads(lines[-1])
    assert 0.0 < last["critic/placed_share"] < 1.0  # single-turn tasks have no place
    assert last["critic/places"] > 2
    resolved = json.loads((whole / "config.json").read_text())["resolved"]
    assert "by place" in resolved["policy_credit"]
    checks = page_data(load_run(whole), lambda record: (None, {}))["checks"]
    assert [each for each in checks if each["findings"] or each["unchecked"]] == []
