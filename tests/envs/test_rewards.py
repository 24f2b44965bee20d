"""Rewards: success is the official verdict, progress pays it out turn by turn, a callable decides
for itself.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from players import DONE, Replay, perfect_texts, shop_env, shop_task, simple_task

from fctncalling.data.errors import RewardError
from fctncalling.data.types import StepRecord, Verdict
from fctncalling.envs.rewards import StepOutcome, get_reward, progress, scored_turns

SELL = ["sell(item='apple')"]


def outcome(verdict: Verdict | None, shares: int, paid: float) -> StepOutcome:
    return StepOutcome(StepRecord(0, ""), verdict, lambda: True, lambda: True, None, shares, paid)


@pytest.mark.parametrize("num_turns", range(1, 12))
def test_progress_of_a_perfect_episode_returns_exactly_one(num_turns: int) -> None:
    task = shop_task(*[SELL] * num_turns)
    assert Replay(shop_env(task, reward="progress"), perfect_texts(task)).total == 1.0


@pytest.mark.parametrize("passes", list(itertools.product([True, False], repeat=3)))
def test_progress_pays_each_turn_that_passes_by_itself(passes: tuple[bool, ...]) -> None:
    # A turn's result must be there: leaving `look` out fails that turn alone.
    task = shop_task(*[["look()", *SELL]] * 3)
    texts = [
        text
        for ok in passes
        for text in ("[look(), sell(item='apple')]" if ok else "[sell(item='apple')]", DONE)
    ]
    played = Replay(shop_env(task, reward="progress"), texts)
    # The last share waits for the verdict, hence three passes are one whole and never two thirds of
    # an invalid one.
    assert played.total == pytest.approx(float(Fraction(sum(passes), 3)))
    assert (played.total == 1.0) == played.valid == all(passes)


def test_a_turn_with_empty_ground_truth_is_worth_nothing() -> None:
    task = shop_task(SELL, [], SELL)
    played = Replay(shop_env(task, reward="progress"), [*perfect_texts(task)[:2], DONE, DONE])
    assert played.rewards == [0.0, 0.5, 0.0, 0.0]
    assert Replay(shop_env(task, reward="progress"), perfect_texts(task)).rewards == [
        0.0,
        0.5,
        0.0,
        0.0,
        0.5,
    ]


def test_task_of_empty_turns_only_returns_one() -> None:
    assert Replay(shop_env(shop_task([], []), reward="progress"), [DONE, DONE]).rewards == [
        0.0,
        1.0,
    ]


def test_all_shares_but_no_valid_verdict_is_not_a_whole_return() -> None:
    # Every scored turn passes, then the step limit ends the task in a turn that nobody checks,
    # before the last.
    task = shop_task(SELL, [], [])
    env = shop_env(task, reward="progress", max_steps_per_turn=1)
    played = Replay(env, [*perfect_texts(task)[:2], "[look()]", "[look()]"])
    assert played.info["verdict"].error_type == "multi_turn:force_terminated"
    assert played.total == 0.0


@pytest.mark.parametrize("text", ["[sell(item='apple')]", "[sell(item='pear')]", "No."])
def test_progress_equals_success_in_single_turn_tasks(text: str) -> None:
    rewards = [
        Replay(shop_env(simple_task(), reward=reward), [text]).rewards
        for reward in ("success", "progress")
    ]
    assert rewards[0] == rewards[1] == [1.0 if "apple" in text else 0.0]


def test_success_is_paid_once_at_the_end() -> None:
    task = shop_task(SELL, SELL)
    assert Replay(shop_env(task), perfect_texts(task)).rewards == [0.0, 0.0, 0.0, 1.0]


def test_no_reward_changes_the_verdict() -> None:
    task = shop_task(SELL, SELL)
    verdicts = [
        Replay(shop_env(task, reward=reward), ["[look()]", DONE, DONE]).info["verdict"]
        for reward in ("success", "progress", lambda step, verdict: -7.0)
    ]
    assert verdicts[0] == verdicts[1] == verdicts[2]


def test_callable_sees_every_step_and_the_verdict_at_the_end_only() -> None:
    seen: list[tuple[StepRecord, Verdict | None]] = []

    def price(step: StepRecord, verdict: Verdict | None) -> int:
        seen.append((step, verdict))
        return len(step.calls)

    task = shop_task(SELL, ["look()", "look()"])
    played = Replay(shop_env(task, reward=price), perfect_texts(task))
    assert played.rewards == [1.0, 0.0, 2.0, 0.0]
    assert all(type(reward) is float for reward in played.rewards)
    assert [verdict is not None for _, verdict in seen] == [False, False, False, True]
    assert [step.error for step, _ in seen] == [None, "no_call", None, "no_call"]


@pytest.mark.parametrize("value", [None, "much", float("nan"), float("inf"), [1], 1e29])
def test_a_reward_that_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(RewardError, match="finite number"):
        Replay(shop_env(simple_task(), reward=lambda step, verdict: value), ["No."])


def test_a_bug_of_a_users_reward_is_raised_with_its_line() -> None:
    def broken(step: StepRecord, verdict: Verdict | None) -> float:
        return float(verdict.valid)  # type: ignore[union-attr]

    line = broken.__code__.co_firstlineno + 1
    with pytest.raises(RewardError) as raised:
        Replay(shop_env(shop_task(SELL), reward=broken), perfect_texts(shop_task(SELL)))
    assert f"broken, line {line}: AttributeError" in str(raised.value)
    assert str(raised.value).endswith("before the last step verdict is None")
    assert isinstance(raised.value.__cause__, AttributeError)


def test_unknown_rewards_are_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r'"sucess".*"success", "progress"'):
        get_reward("sucess")
    with pytest.raises(TypeError, match="neither a name nor callable"):
        get_reward(3)  # type: ignore[arg-type]


def test_scored_turns_are_those_with_ground_truth() -> None:
    assert scored_turns(shop_task(SELL, [], SELL)) == (True, False, True)
    assert scored_turns(simple_task()) == (True,)


@pytest.mark.parametrize("shares", range(1, 60))
def test_last_share_is_withheld_for_every_number_of_turns(shares: int) -> None:
    # All turns pass, but the verdict is invalid: n - 1 shares are paid, whatever rounding does.
    paid = 0.0
    for _ in range(shares):
        paid += progress(outcome(None, shares, paid))
    assert paid == pytest.approx((shares - 1) / shares)
    assert paid + progress(outcome(Verdict(True, 1.0), shares, paid)) == 1.0


@pytest.mark.parametrize(
    ("turn", "total"),
    [("[look(), sell(item='apple')]", 1.0), ("[look(), sell(item=apple)]", 0.5)],
)
def test_strict_rewards_pay_for_nothing_that_was_forgiven(turn: str, total: float) -> None:
    task = shop_task(["look()", *SELL], ["look()"])
    texts = [turn, DONE, "[look()]", DONE]
    returns = {
        reward: Replay(shop_env(task, reward=reward), texts).total
        for reward in ("success", "progress", "strict", "strict_progress")
    }
    assert returns == {
        "success": 1.0,
        "progress": 1.0,
        "strict": float(total == 1.0),
        "strict_progress": total,
    }


def test_strict_progress_pays_the_strict_turns_of_an_episode_that_is_not_strict() -> None:
    task = shop_task(["look()"], SELL, ["look()"])
    texts = ["[look()]", DONE, "[sell(item=apple)]", DONE, "[look()]", DONE]
    played = Replay(shop_env(task, reward="strict_progress"), texts)
    assert played.valid
    assert played.rewards == pytest.approx([0.0, 1 / 3, 0.0, 0.0, 0.0, 1 / 3])
    assert played.info["strict_verdict"].error_type == "strict:lenient_syntax"


def test_strict_progress_equals_progress_of_an_episode_without_leniency() -> None:
    task = shop_task(SELL, [], SELL)
    rewards = [
        Replay(shop_env(task, reward=reward), perfect_texts(task)).rewards
        for reward in ("progress", "strict_progress")
    ]
    assert rewards[0] == rewards[1]
