"""A worker plays what the learning process would, with the weights it is handed and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import pytest
import torch
from tiny_models import EchoEnv, save_tiny

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.policy.weight_sync import load_policy_state, policy_state
from fctncalling.algorithms.run.interruption import Interruption
from fctncalling.training.load_policy import load_policy
from fctncalling.training.rollouts.ray_rollout import RolloutWorker, connect_ray
from fctncalling.training.rollouts.rollout_backends import (
    LocalRollout,
    RolloutRound,
    merge_shares,
    round_shares,
)
from fctncalling.training.run_config import RunConfig


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gymnasium.register("Echo-v0", entry_point=lambda **_: EchoEnv())
    yield
    del gymnasium.registry["Echo-v0"]


@pytest.mark.parametrize("lora_r", [0, 2])
def test_two_workers_play_the_shares_of_one_round_of_the_learner_s_weights(
    tmp_path: Path, lora_r: int
) -> None:
    config = TrainConfig(
        env_name="Echo-v0",
        model_name_or_path=str(save_tiny(tmp_path / "tiny")),
        results_dir=str(tmp_path),
        n_rollout_threads=4,
        max_new_tokens=6,
        max_episode_tokens=300,
        device="cpu",
        lora_r=lora_r,
        critic="lora" if lora_r else "full",
    )
    run_config = RunConfig(num_rollout_workers=2)
    policy, template = load_policy(config, run_config, None, torch.device("cpu"))
    with torch.no_grad():
        for weight in policy.policy_parameters():
            weight += 0.02 * torch.randn_like(weight)
    learned = policy_state(policy)
    assert sum(weight.size for weight in learned.values()) == sum(
        w.numel() for w in policy.policy_parameters()
    )
    wanted = RolloutRound(tuple(f"train_{number}" for number in range(8)), 3, 1.0, version=5)
    rollout = LocalRollout(config, policy, template, EchoEnv)
    here = rollout.play(wanted, Interruption()).episodes
    rollout.close()
    workers = [RolloutWorker(config, run_config, number) for number in range(2)]
    there = [worker.play(learned, wanted, range(8)[rank::2]) for rank, worker in enumerate(workers)]
    for number, record in enumerate(here):
        other = there[number % 2].episodes[number // 2]
        assert [row.ids for row in record.rows] == [row.ids for row in other.rows]
        assert (record.task_id, record.success) == (other.task_id, other.success)
    assert sum(each.sampled_tokens for each in there) == sum(
        sum(row.acted) for r in here for row in r.rows
    )
    before = workers[0].play(
        {}, wanted, range(8)[0::2]
    )  # known by its version: nothing is taken over again
    assert [row.ids for r in before.episodes for row in r.rows] == [
        row.ids for r in there[0].episodes for row in r.rows
    ]


@pytest.mark.parametrize(("groups", "size", "count"), [(16, 8, 4), (7, 3, 2), (2, 8, 4), (5, 1, 2)])
def test_shares_of_a_round_are_whole_groups_where_there_are_enough(
    groups: int, size: int, count: int
) -> None:
    wanted = RolloutRound(("task",) * groups * size, 0, 1.0, 0, group_size=size)
    shares = round_shares(wanted, count)
    assert sorted(number for share in shares for number in share) == [*range(groups * size)]
    assert max(map(len, shares)) - min(map(len, shares)) <= size
    holders = [{n // size for n in share} for share in shares]
    torn = sum(map(len, holders)) > groups
    assert torn is (groups < count)
    assert merge_shares(shares, shares) == [*range(groups * size)]  # type: ignore[arg-type]


def test_weights_of_another_model_are_refused_by_name(tmp_path: Path) -> None:
    config = TrainConfig(model_name_or_path=str(save_tiny(tmp_path / "tiny")), device="cpu")
    policy, _ = load_policy(config, RunConfig(), None, torch.device("cpu"))
    weights = policy_state(policy)
    name = sorted(weights)[0]
    del weights[name]
    with pytest.raises(ValueError, match=f"1 names differ, such as {name}"):
        load_policy_state(policy, weights)


def test_a_cluster_that_cannot_be_joined_is_told_with_ray_s_token_authentication(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**_: object) -> None:
        raise ConnectionError("ray client connection timeout")

    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    monkeypatch.setattr("fctncalling.training.rollouts.ray_rollout.import_extra", lambda *_: ray)
    with pytest.raises(SettingError, match=r"connection timeout.*RAY_AUTH_MODE=token"):
        connect_ray("10.0.0.1:6379", 1)
