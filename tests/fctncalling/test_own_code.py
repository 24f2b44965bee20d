"""Algorithms and rewards of one's own: named by MODULE:NAME, learned from, their bugs told."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from token_worlds import episode, policy_with_values, settings, some_episodes, targets_of

from evaluate_fctncalling import main as evaluate
from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.algorithms.learning_signal import shape_rewards
from fctncalling.algorithms.targets import estimate_advantages
from fctncalling.algorithms.values import Values
from fctncalling.cli.train import main, parse_settings
from fctncalling.training.prepare_run import check_start, learning_notes
from fctncalling.training.resume import keep_former_defaults
from fctncalling.training.run_config import EMBEDDED_MODEL_DEFAULTS, ENV_DEFAULTS, RunConfig

torch.set_num_threads(1)
ROOT = Path(__file__).parents[2]
MODULE = """
import torch
from own_algorithm import MONTE_CARLO, monte_carlo_estimate


def sevens(trajectories, config):
    estimate = monte_carlo_estimate(trajectories, config)
    return estimate._replace(advantages=torch.full_like(estimate.advantages, 777.0))


SEEN = []
SPY = MONTE_CARLO._replace(
    estimate=lambda seen, config: SEEN.append(seen) or monte_carlo_estimate(seen, config)
)
NO_CRITIC = MONTE_CARLO._replace(critic=False)
SEVENS = MONTE_CARLO._replace(name="SEVENS", estimate=sevens)


def broken(step, verdict):
    return float(verdict.valid)


def huge(step, verdict):
    return 1e29
"""
BROKEN_LINE = MODULE.splitlines().index("    return float(verdict.valid)") + 1
SHORT = (
    *("--num_updates=1", "--episodes_per_update=8", "--n_rollout_threads=8", "--eval_episodes=2"),
    *("--num_mini_batch=2", "--dynamic_sampling=1", "--tensorboard=false"),
    *("--mixture=multiple=1", "--log_tokens_interval=1"),
)

MULTI_TURN = "--mixture=multi_turn_base=1"  # where a verdict is None before the end


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_code.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("my_code", "own_algorithm"):
        sys.modules.pop(name, None)


def metrics(tmp_path: Path, name: str, *more: str) -> bytes:
    flags = [f"--results_dir={tmp_path}", f"--experiment_name={name}", *SHORT, *more]
    assert main(flags) == 0
    [file] = (tmp_path / name).rglob("metrics.jsonl")
    return file.read_bytes()


def test_an_own_estimate_reaches_the_loss() -> None:
    policy = policy_with_values()
    found = {}
    for name in ("MONTE_CARLO", "SEVENS"):
        config = settings(algorithm_name=f"my_code:{name}", whiten_advantages=False)
        found[name] = targets_of(policy, some_episodes(policy), config).advantages
    assert set(found["SEVENS"].tolist()) == {777.0}
    assert len(set(found["MONTE_CARLO"].tolist())) > 2


@pytest.mark.prove
def test_a_run_of_an_own_algorithm_is_logged_resumed_and_viewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = metrics(tmp_path, "plain", "--algorithm_name=my_code:MONTE_CARLO")
    assert "values as they are (--lam 0.95; TPPO has auto)" in capsys.readouterr().out
    assert plain != metrics(tmp_path, "sevens", "--algorithm_name=my_code:SEVENS")

    run = tmp_path / "plain/embedded/embedded/MONTE_CARLO"
    config = json.loads((run / "config.json").read_text("utf-8"))
    assert config["algorithm_name"] == "my_code:MONTE_CARLO"
    assert config["resolved"]["policy_credit"] == (
        "my_code:MONTE_CARLO's estimate of the critic's values as they are (--lam 0.95; TPPO has "
        "auto)"
    )
    flags = [f"--results_dir={tmp_path}", "--experiment_name=plain", *SHORT, "--num_updates=2"]
    assert main([*flags, "--algorithm_name=my_code:MONTE_CARLO", "--resume"]) == 0
    sys.modules.pop("my_code")
    assert evaluate(["view", str(run), "--output", str(tmp_path / "page.html")]) == 0
    assert "my_code" not in sys.modules  # a page runs no code that a file names


def test_what_mends_the_estimate_or_stands_in_its_place_is_said_at_the_start() -> None:
    credit, episodes = learning_notes(TrainConfig(**EMBEDDED_MODEL_DEFAULTS))
    assert credit == (
        "Policy credit: TPPO's estimate of values weighed by what they know (--lam auto)."
    )
    assert episodes == (
        "Episodes of an update: 64, and up to 128 until 64 are in groups that differ; it learns "
        "from those alone, fewer or more (--dynamic_sampling 2)."
    )
    (by_state,) = learning_notes(TrainConfig(group_size=4, group_baseline="state"))
    assert by_state.startswith("Policy credit: by matched states (--group_baseline state); TPPO's")
    assert learning_notes(TrainConfig(lam=0.95)) == []
    assert learning_notes(TrainConfig(**{**EMBEDDED_MODEL_DEFAULTS, "num_updates": 0})) == []


def test_the_start_says_what_an_own_estimate_sees_and_what_becomes_of_it() -> None:
    job = TrainConfig(**EMBEDDED_MODEL_DEFAULTS, algorithm_name="my_code:MONTE_CARLO")
    hidden, whole = "groups that differ alone", "the estimate sees all episodes; "
    note, credit, _ = learning_notes(job)
    assert "the critic's values as they are (--lam 0.95; TPPO has auto)" in credit
    assert hidden in note
    assert "whitened (--whiten_advantages false" in note
    note, _ = learning_notes(replace(job, dynamic_sampling=1, whiten_advantages=False))
    assert note.endswith(f"{whole}its advantages are taken as they are.")
    note, _ = learning_notes(TrainConfig(algorithm_name="my_code:NO_CRITIC"))
    assert note.endswith(f"{whole}its advantages are taken as they are.")  # none are whitened


@pytest.mark.parametrize(
    ("field", "change", "fault"),
    [
        ("advantages", lambda tensor: tensor[:, 0], "is torch.float32 (2,), expected floats"),
        ("advantages", lambda tensor: tensor.unsqueeze(-1), "(2, 2, 1), expected floats (E, L)"),
        ("advantages", lambda tensor: tensor / 0 * 0, "has 3 NaN or infinite entries"),
        ("returns", lambda tensor: tensor.tolist(), "expected floats (E, L)"),
        ("loss_mask", lambda tensor: tensor.float(), "expected bool (E, L)"),
        ("loss_mask", lambda tensor: tensor & False, "is false at all acted tokens"),
    ],
)
def test_an_estimate_that_breaks_its_contract_is_named(
    field: str, change: Callable[[torch.Tensor], Any], fault: str
) -> None:
    config = settings(algorithm_name="my_code:MONTE_CARLO")
    episodes = [
        episode([(1, 1.0), (1, 0.0)], terminated=True),
        episode([(1, 1.0)], terminated=True),
    ]
    experience = build_experience(episodes, torch.device("cpu"))
    right = importlib.import_module("own_algorithm").MONTE_CARLO

    def broken(*arguments: Any) -> Any:
        estimate = right.estimate(*arguments)
        return estimate._replace(**{field: change(getattr(estimate, field))})

    with pytest.raises(SettingError) as raised:
        estimate_advantages(
            right._replace(estimate=broken),
            experience,
            Values(torch.zeros(3), torch.zeros(2)),
            config,
        )
    assert f"MONTE_CARLO: its estimate's {field} " in str(raised.value)
    assert fault in str(raised.value)


@pytest.mark.parametrize(
    ("estimate", "fault"),
    [
        (lambda t, _: t.values[5], "its estimate fails on three made-up episodes of up to three "),
        (lambda t, _: (t.values, t.values), "its estimate returned tuple, expected AdvantageEst"),
    ],
)
def test_an_estimate_is_rehearsed_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, estimate: Any, fault: str
) -> None:
    broken = importlib.import_module("own_algorithm").MONTE_CARLO._replace(estimate=estimate)
    monkeypatch.setattr("own_algorithm.MONTE_CARLO", broken)
    config = TrainConfig(
        **EMBEDDED_MODEL_DEFAULTS,
        algorithm_name="own_algorithm:MONTE_CARLO",
        results_dir=str(tmp_path),
    )
    with pytest.raises(SettingError, match=f"own_algorithm:MONTE_CARLO: {fault}"):
        check_start(config, RunConfig())


def test_trajectories_keep_their_contract() -> None:
    """What `Trajectories` says of order, padding, groups, ends and lambda."""
    config = settings(algorithm_name="my_code:SPY", reward_scale=2.0, gamma=0.9, lam=None)
    policy = policy_with_values()
    episodes = [
        episode([(2, 1.0), (1, 0.5)], terminated=True),
        episode([(1, 0.0)], terminated=False),
        replace(episode([(1, 1.0)], terminated=True), task_id="other"),
        episode([(1, 1.0)], terminated=True, invalid=True),
    ]
    targets = targets_of(policy, shape_rewards(episodes, config), config)
    seen = sys.modules["my_code"].SEEN
    assert len(seen) == 1, "once an update"
    assert seen[0].rewards.tolist() == [[0, 2, 1], [0, 0, 0], [2, 0, 0]]
    assert seen[0].acted.sum(1).tolist() == [3, 1, 1]
    assert seen[0].ends_action.int().tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert seen[0].group.tolist() == [0, 0, 1]
    assert seen[0].lam is None
    assert seen[0].lambdas(config) == 0.95
    assert seen[0].values[seen[0].acted].tolist() == targets.old_values.tolist()
    assert not seen[0].values[~seen[0].acted].any()
    assert (seen[0].bootstrap != 0).tolist() == [False, True, False]


def test_the_chosen_algorithms_advantages_reach_the_loss_of_every_job() -> None:
    """What a job sets must not stand in their place: 777 everywhere moves the policy."""
    for job in (EMBEDDED_MODEL_DEFAULTS, *ENV_DEFAULTS.values(), *PRESETS.values()):
        known = {name: job[name] for name in job if name in TrainConfig.__dataclass_fields__}
        config = TrainConfig(**known, algorithm_name="my_code:SEVENS")
        config = replace(config, whiten_advantages=False)
        policy = policy_with_values()
        found = {"state_hashes": ["start"], "terminated": True}  # all meet in one state
        episodes = [episode([(2, float(n % 2))], **found) for n in range(4)]
        assert set(targets_of(policy, episodes, config).advantages.tolist()) == {777.0}
        by_state = replace(config, group_size=4, episodes_per_update=64, group_baseline="state")
        assert 777.0 not in targets_of(policy, episodes, by_state).advantages.tolist()


def test_a_run_of_version_0_3_goes_on_by_its_own_credit(tmp_path: Path) -> None:
    assert (parse_settings([]).group_baseline, parse_settings([]).lam) == ("none", None)
    named = ["--algorithm_name", "TPPO", "--results_dir", str(tmp_path)]
    folder = tmp_path / "check/embedded/embedded/TPPO"
    folder.mkdir(parents=True)
    before = {"algorithm_name": "TPPO", "group_baseline": "state", "lam": 0.95}
    (folder / "config.json").write_text(json.dumps(before), encoding="utf-8")
    assert parse_settings(["--config", str(folder / "config.json")]).group_baseline == "state"
    namespace = parse_settings([*named, "--resume"])
    keep_former_defaults(namespace, {"algorithm_name"})
    assert (namespace.group_baseline, namespace.lam) == ("state", 0.95)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("my_code:broken", "expected an Algorithm (fctncalling.algorithms.algorithm), found"),
        ("my_code:MONTE_CARL", "my_code has no MONTE_CARL; is MONTE_CARLO meant?"),
        ("PPO", "expected one of TPPO, POAD, NTPO, APPO, GRPO, or MODULE:NAME of your own"),
    ],
)
def test_what_is_no_algorithm_is_told_in_one_line(
    name: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        main(["--algorithm_name", name, f"--results_dir={tmp_path}"])
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "broken",
            f"line {BROKEN_LINE}: AttributeError: 'NoneType' object has no attribute 'valid'; "
            "before the last step verdict is None\n",
        ),
        ("huge", "returned 1e+29: expected a finite number, from -1e+09 to 1e+09"),
    ],
)
def test_a_reward_that_fails_ends_the_run_in_one_line(
    name: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--reward=my_code:{name}", f"--results_dir={tmp_path}", *SHORT, MULTI_TURN]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: after 0 updates: --reward my_code:{name}")
    assert told in error
    assert error.count("\n") == 1


def test_the_example_of_a_group_takes_each_episodes_return_less_its_groups_mean() -> None:
    policy = policy_with_values()
    config = settings(algorithm_name="own_algorithm:GROUP_MEAN", gamma=1.0)
    sys.modules.pop("own_algorithm", None)
    episodes = some_episodes(policy)
    targets = targets_of(policy, episodes, config)
    groups: dict[object, list[float]] = {}
    for played in episodes:
        groups.setdefault(played.group_key, []).append(played.episode_return)
    expected = [
        played.episode_return - sum(returns) / len(returns)
        for played in episodes
        for returns in [groups[played.group_key]]
        for row in played.rows
        for acted in row.acted
        if acted
    ]
    assert targets.advantages.tolist() == pytest.approx(expected, abs=1e-6)
