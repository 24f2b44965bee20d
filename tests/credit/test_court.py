"""The court: relatives in closed form, the statistics by enumeration, and what the page says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from token_worlds import (
    act,
    empty_row,
    observe,
    policy_with_values,
    settings,
    some_episodes,
    trajectories,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/court"))
from court import ARMS, EFFECTS, JUDGED, TASK_SETS, jobs
from critical import CriticalRun
from page import BEGIN, END, PAGE, kept_evidence, tables
from relatives import (
    BONUS,
    call_bonus,
    echoing,
    gated,
    gigpo,
    groups_of_most_variance,
    kept_actions,
    masked_targets,
    noisy_targets,
    patched,
    result_tokens,
    self_distilled,
)
from truth import NoisyOracle, cosine, estimates, pooled_values
from verdicts import Comparison, Effect, cosines, effects, interval, ranking_of_critic, standing

from fctncalling.algorithms import ppo, targets
from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.episodes import EpisodeRecord, RowArrays
from fctncalling.algorithms.group_baseline import GROUP_BASELINES
from fctncalling.algorithms.minibatches import add_forward_inputs, plan_minibatches
from fctncalling.data.types import Call, Episode, StepRecord, Verdict
from fctncalling.envs import rewards
from fctncalling.envs.rewards import StepOutcome
from fctncalling.lab.credit.grades import concatenate_episodes
from fctncalling.lab.credit.ruler import BranchedTruth, Snapshot

torch.set_num_threads(1)


def test_gigpo_adds_the_episode_in_its_group_and_the_action_in_its_state() -> None:
    """Returns 1 and 0; both pass state "a", then part: at "a" both terms are +-1, behind it one."""
    lines = trajectories(
        [([0.0, 0.0], 0.0), ([0.0], 1.0)], [([0.0], 0.0), ([0.0, 0.0], 0.0)], groups=[0, 0]
    )
    estimate = ppo.TPPO.estimate(lines, settings())
    found = gigpo(estimate, lines, [["a", "b"], ["a", "c"]], discount=0.5).advantages
    wanted = torch.tensor([[2.0, 2.0, 1.0], [-2.0, -1.0, -1.0]])
    assert torch.allclose(found, wanted, atol=1e-4)


def test_the_gate_trusts_a_critic_that_explains_and_no_other() -> None:
    config = settings(gamma=1.0, lam=1.0)
    good = trajectories([([0.9], 1.0)], [([0.1], 0.0)])
    assert torch.equal(gated(good, config).advantages, ppo.TPPO.estimate(good, config).advantages)
    bad = trajectories([([0.1], 1.0)], [([0.9], 0.0)])
    assert gated(bad, config).advantages.flatten().tolist() == [0.5, -0.5]
    assert torch.equal(gated(bad, config).returns, ppo.TPPO.estimate(bad, config).returns)


def test_a_mask_keeps_the_half_of_the_actions_with_most_entropy() -> None:
    actions = torch.tensor([0, 0, 1, 2, 2, 2, 3])
    scores = torch.tensor([0.1, 0.1, 0.9, 0.5, 0.5, 0.5, 0.2])
    assert kept_actions(scores, actions).tolist() == [False] * 2 + [True] * 4 + [False]


@pytest.mark.parametrize("at_random", [False, True])
def test_masked_actions_enter_no_loss_and_the_others_as_before(at_random: bool) -> None:
    policy, config = policy_with_values(), settings(group_size=4)
    experience = build_experience(some_episodes(policy), "cpu")
    generator = torch.Generator().manual_seed(0)
    plan = plan_minibatches(experience, config, generator)
    arguments = (policy, experience, plan, ppo.TPPO, config, generator)
    whole, found = (
        targets.compute_targets(*arguments),
        masked_targets(at_random=at_random)(*arguments),
    )
    kept = found.loss_mask
    assert 0 < len(experience.tokens.action[kept].unique()) <= int(whole.loss_mask.sum()) / 2 + 1
    assert not found.advantages[~kept].any()
    assert not found.loss_weights[~kept].any()
    assert torch.equal(found.advantages[kept], whole.advantages[kept])


def test_noise_on_advantages_is_one_draw_an_action() -> None:
    policy, config = policy_with_values(), settings(group_size=4)
    experience = build_experience(some_episodes(policy), "cpu")
    generator = torch.Generator().manual_seed(0)
    plan = plan_minibatches(experience, config, generator)
    arguments = (policy, experience, plan, ppo.TPPO, config, generator)
    noise = noisy_targets(3)(*arguments).advantages - targets.compute_targets(*arguments).advantages
    actions = experience.tokens.action
    draws = [noise[actions == number].unique() for number in actions.unique()]
    assert all(draw.max() - draw.min() < 1e-5 for draw in draws)
    assert torch.stack([draw[0] for draw in draws]).std() == pytest.approx(3.0, rel=0.5)


def told_and_answered() -> EpisodeRecord:
    """Return an episode with a tool's answer, 7 and 8, and the truth, 11, for who may see it."""
    row = empty_row()
    observe(row, [2, 9, 1, 4])
    act(row, 9, -2.0, ends_action=False)
    act(row, 1, -2.0, ends_action=True)
    observe(row, [5, 7, 8, 1, 4])
    act(row, 10, -2.0, ends_action=True, reward=1.0)
    row.joint = RowArrays(np.asarray([11, *row.ids]), np.asarray([False, *row.acted]))
    return EpisodeRecord("task", "world", [row], episode_return=1.0)


def logprobs_of(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    """Return the log-probability of each token but the first."""
    scores = model(input_ids=torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    return scores.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def test_echo_adds_the_cross_entropy_of_what_the_tool_answered() -> None:
    policy, config = policy_with_values(), settings()
    record = told_and_answered()
    experience = build_experience([record], torch.device("cpu"))
    batch = experience.batch([0])[0]
    assert result_tokens(batch).nonzero()[:, 1].tolist() == [7, 8, 9]
    generator = torch.Generator().manual_seed(0)
    found = targets.compute_targets(policy, experience, [[[0]]], ppo.TPPO, config, generator)

    def gradient(accumulate: Callable[..., object]) -> torch.Tensor:
        accumulate(policy, experience, found, [[0]], ppo.TPPO, config)
        return torch.cat([p.grad.flatten().clone() for p in policy.policy_parameters()])  # type: ignore[union-attr]

    added = gradient(echoing(0.2)) - gradient(ppo.accumulate_gradients)
    policy.zero_grad()
    (-0.2 * logprobs_of(policy.model, record.rows[0].ids)[6:9].mean()).backward()
    wanted = torch.cat([p.grad.flatten() for p in policy.policy_parameters()])  # type: ignore[union-attr]
    assert torch.allclose(added, wanted, atol=1e-5)


def test_a_teacher_is_the_policy_with_the_truth_in_front() -> None:
    policy, config = policy_with_values(), settings()
    record = told_and_answered()
    experience = build_experience([record], torch.device("cpu"))
    experience = add_forward_inputs(experience, policy, config)
    generator = torch.Generator().manual_seed(0)
    found = self_distilled(policy, experience, [[[0]]], ppo.TPPO, config, generator)
    ids = record.rows[0].ids
    ratios = (logprobs_of(policy.model, [11, *ids])[1:] - logprobs_of(policy.model, ids)).detach()
    ratios = ratios[[3, 4, 10]]
    assert torch.allclose(found.advantages, ratios / ratios.square().mean().sqrt(), atol=1e-4)


def test_a_filter_keeps_the_groups_whose_returns_vary_most() -> None:
    def group(task: str, *returns: float) -> list[EpisodeRecord]:
        return [EpisodeRecord(task, "world", [], episode_return=each) for each in returns]

    played = group("sure", 1, 1, 1) + group("even", 0, 1, 0) + group("hopeless", 0, 0, 0)
    played += group("wide", 0, 3, 0)
    assert {each.task_id for each in groups_of_most_variance(played)} == {"even", "wide"}


def test_a_bonus_pays_each_message_whose_calls_ran() -> None:
    call = (Call("ls", {}),)
    valid = Verdict(valid=True, score=1.0)

    def paid(step: StepRecord, verdict: Verdict | None) -> float:
        return call_bonus(StepOutcome(step, verdict, lambda: True, lambda: True, verdict, 1, 0.0))

    assert paid(StepRecord(0, "", call), None) == BONUS
    assert paid(StepRecord(0, "", call, error="tool_error"), None) == 0.0
    assert paid(StepRecord(0, ""), valid) == 1.0


def test_a_relative_is_in_place_for_its_run_alone() -> None:
    with patched("bonus"), patched("gate"), patched("gigpo"), patched("mask"), patched("filter"):
        assert rewards.REWARDS["strict"] is call_bonus
        assert ppo.ALGORITHMS["TPPO"].estimate is gated
        assert GROUP_BASELINES["state"] is gigpo
    assert rewards.REWARDS["strict"] is rewards.strict_success
    assert ppo.ALGORITHMS["TPPO"] is ppo.TPPO
    assert GROUP_BASELINES["state"] is not gigpo
    assert ppo.compute_targets is targets.compute_targets
    assert ppo.build_experience is build_experience


def test_the_interval_holds_what_the_exact_test_accepts() -> None:
    gains = [1.0, 2.5, -0.5, 3.0, 1.5, 2.0, 0.3]
    low, high = interval(gains)

    def chance(shift: float) -> float:
        moved = [gain - shift for gain in gains]
        sums = [
            abs(sum(s * m for s, m in zip(signs, moved, strict=True)))
            for signs in product((1, -1), repeat=7)
        ]
        return sum(each >= abs(sum(moved)) - 1e-9 for each in sums) / len(sums)

    assert chance(low - 1e-3) < 0.05 <= chance(low + 1e-3)
    assert chance(high + 1e-3) < 0.05 <= chance(high - 1e-3)
    assert interval([1.0, 3.0, 2.0]) == (1.0, 3.0)  # too few for the test: the range


@pytest.mark.parametrize(
    ("says", "shift", "wanted"),
    [
        ("gain", 3.0, "holds"),
        ("gain", 0.0, "refuted"),
        ("gain", 1.8, "undecided"),
        ("harm", -3.0, "holds"),
        ("harm", 0.5, "refuted"),
        ("equal", 0.5, "holds"),
        ("equal", 3.5, "refuted"),
        ("equal", 2.0, "undecided"),
    ],
)
def test_verdicts_follow_the_written_rules(says: str, shift: float, wanted: str) -> None:
    spread = 4.0 if wanted == "undecided" else 0.5
    gains = [shift + spread * each for each in (-1.0, 1.0, -0.9, 0.9, -0.5, 0.5) * 2]
    effect = Effect(Comparison(1, "a", "b", says), gains, 0.01, 0.02)
    assert effect.verdict == wanted
    assert effect._replace(gains=gains[:11]).verdict == "effect size"
    if (says, wanted) == ("gain", "holds"):
        assert effect._replace(corrected=0.2).verdict == "undecided"


def test_gains_are_paired_by_seed_and_corrected_over_what_is_judged() -> None:
    def run(arm: str, seed: int, area: float) -> CriticalRun:
        return CriticalRun(arm, seed, 5e-4, [area], 1, (0, 1), (0, 1), 1.0)

    runs = [run("x", seed, 0.5 + 0.01 * seed) for seed in range(14)]
    runs += [run("y", seed, 0.4) for seed in range(2, 14)] + [
        run("z", seed, 0.5) for seed in (0, 1)
    ]
    found = effects(runs, [Comparison(1, "x", "y", "gain"), Comparison(2, "x", "z", "gain")])
    assert found[0].gains == pytest.approx(list(range(12, 24)))
    assert (found[0].chance, found[0].corrected) == (2 / 4096, 2 / 4096)  # one judged, one not
    assert found[1].verdict == "effect size"


def test_a_gain_is_void_where_the_ceiling_has_none_and_a_harm_never() -> None:
    def run(arm: str, seed: int, area: float) -> CriticalRun:
        return CriticalRun(arm, seed, 5e-4, [area], 1, (0, 1), (0, 1), 1.0)

    areas = {
        "ceiling": 0.7,
        "GRPO": 0.68,
        "NTPO": 0.6,
        "GiGPO": 0.68,
        "APPO": 0.7,
        "GRPO_bonus": 0.1,
    }
    runs = [run(arm, seed, area) for arm, area in areas.items() for seed in (1, 2, 3)]

    def stands(first: str, second: str, says: str) -> str:
        [effect] = effects(runs, [Comparison(1, first, second, says)])
        return standing(runs, effect)

    assert stands("GiGPO", "GRPO", "gain") == "void"
    assert stands("APPO", "NTPO", "gain") == "effect size"
    assert stands("GRPO_bonus", "GRPO", "harm") == "effect size"
    runs = [each for each in runs if (each.arm, each.seed) != ("ceiling", 3)]
    assert stands("APPO", "NTPO", "gain") == "room not measured"


def test_a_cosine_is_freed_of_the_truths_own_noise() -> None:
    """Exact truth A, measured A + e, estimate A + n, given A + e + m: closed forms by variances."""
    generator = np.random.default_rng(0)
    exact, error, noise, more = generator.standard_normal((4, 200_000)) * [[1], [0.7], [2], [3]]
    measured, given = exact + error, exact + error + more

    def cosine(first: object, second: object) -> float:
        return float(np.corrcoef(first, second)[0, 1])  # type: ignore[arg-type]

    line = {
        "noise": 3.0,
        "reliability": 1 / 1.49,
        "cosine": {"x": cosine(measured, exact + noise), "given": cosine(measured, given)},
    }
    found = cosines([line])
    assert found["x"] == pytest.approx(1 / 5**0.5, abs=0.01)
    assert found["noise_3"] == pytest.approx(cosine(exact, given), abs=0.01)


def test_a_critic_that_says_nothing_yet_ranks_nothing_wrong() -> None:
    lines = [{"update": 1, "ranking": [0.0, 50]}, {"update": 2, "ranking": [0.5, 10]}]
    assert ranking_of_critic([*lines, {"update": 3, "ranking": [0.8, 20]}]) == (0.7, 30)


def test_values_are_pooled_over_the_branches_that_pass() -> None:
    """All go from "" to "a"; there one goes "ax" (pays 1), or "ay" (nothing), which nobody saw."""

    def state(*texts: str) -> Snapshot:
        return Snapshot("t", None, "", {}, texts, "")

    def branch(start: Snapshot, *steps: tuple[str, float]) -> tuple[Snapshot, EpisodeRecord]:
        made = [StepRecord(0, text, reward=reward) for text, reward in steps]
        episode = EpisodeRecord("t", "world", [])
        episode.episode = Episode("t", "c", tuple(made))
        return start, episode

    branches = [branch(state(), ("a", 0.0), ("x", 1.0)), branch(state(), ("a", 0.0), ("x", 1.0))]
    branches += [branch(state("a"), ("x", 1.0)), branch(state("a"), ("y", 0.0))]
    rewards = [np.asarray([0.0, 1.0])]
    truth = BranchedTruth([], [[state(), state("a")]], rewards, [], [], ([], []))
    truth.values = pooled_values(truth, branches)
    assert truth.values[0].tolist() == [0.75, 0.75]  # alone: 1 and 0.5
    assert truth.advantages()[0].tolist() == [0.0, 0.25]


def test_noise_of_three_deviations_leaves_a_cosine_of_one_in_root_ten() -> None:
    generator = np.random.default_rng(7)
    rewards = [generator.standard_normal(50) for _ in range(400)]
    values = [np.zeros(50) for _ in rewards]
    truth = BranchedTruth([], [], rewards, values, values, (values, values))
    oracle = NoisyOracle(truth, noise=3.0, seed=1, lines=[])
    found = cosine(concatenate_episodes(oracle.measured), concatenate_episodes(oracle.advantages))
    assert found == pytest.approx(1 / 10**0.5, abs=0.02)


def test_arms_of_one_truth_are_graded_by_what_the_trainer_takes() -> None:
    """One state, then two; the second episode fails at its last action, which only it took."""
    lines = trajectories(
        [([0.0], 0.0), ([0.0], 1.0)],
        [([0.0], 0.0), ([0.0], 0.0)],
        [([0.0], 0.0), ([0.0], 1.0)],
        groups=[0, 0, 0],
    )
    config = settings(gamma=1.0, lam=1.0, group_size=3, episodes_per_update=3)
    found = estimates(lines, [["a", "b"], ["a", "c"], ["a", "b"]], config)
    assert found["leave_one_out"].tolist() == [[0.5, 0.5], [-1.0, -1.0], [0.5, 0.5]]
    assert found["GRPO"][1, 0] == found["GRPO"][1, 1] < 0 < found["GRPO"][0, 0]
    assert torch.allclose(found["state_alone"][0], torch.tensor([0.5, 0.0]))
    assert found["critic"][:, 1].tolist() == [1.0, 0.0, 1.0]


def test_the_page_has_the_tables_of_the_kept_runs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == tables(kept_evidence())


def test_a_stop_leaves_a_balanced_table_and_what_is_kept_is_not_run_again() -> None:
    wanted = [job for tasks in TASK_SETS for job in jobs(tasks, list(ARMS), range(1, 13))]
    assert len(set(wanted)) == len(wanted)
    kept = [run for each in kept_evidence() for run in each.runs]
    assert {(run.arm, run.seed, run.lr) for run in kept}.isdisjoint(
        job[1:] for job in wanted if "T1" not in job.file.name
    )
    judged = [job.seed for job in wanted if job.file.name == "T2.jsonl" and job.arm == "critic"]
    assert judged == sorted(judged)


@pytest.mark.parametrize("name", sorted({**JUDGED, **EFFECTS}.keys() - {"GiGPO"}))
def test_an_arm_differs_from_its_like_in_one_thing(name: str) -> None:
    arm, like = ARMS[name], ARMS[ARMS[name].than]
    flags = dict(arm.flags.items() ^ like.flags.items())
    parts = "patch", "warm_up", "noise", "slower"
    others = [getattr(arm, each) != getattr(like, each) for each in parts]
    assert len(flags) + sum(others) == 1
