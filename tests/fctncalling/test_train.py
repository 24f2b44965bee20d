"""The training command: what it leaves behind, equal bytes for equal seeds, and going on after
Ctrl-C.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from config_files import config_flag
from tiny_models import EchoEnv, save_tiny

from evaluate_fctncalling import main as evaluate
from fctncalling.algorithms import ppo
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.run.checkpoint import find_checkpoint, load_state
from fctncalling.cli import train as train_command
from fctncalling.cli.train import main, parse_settings
from fctncalling.data.token_file import read_token_file
from fctncalling.training import prepare_run
from fctncalling.training.counters import Counters
from fctncalling.training.task_split import load_bfcl_tasks
from fctncalling.training.training_run import RunNotices

ROOT = Path(__file__).parents[2]


class InterruptedEnv(EchoEnv):
    """Sends this process SIGINT, as Ctrl-C does, at its step number `at`."""

    at, steps = -1, 0
    noisy = False  # pays what python's and numpy's global streams say
    generous = False  # pays for every odd length, which an untrained model does hit

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        InterruptedEnv.steps += 1
        if InterruptedEnv.steps == InterruptedEnv.at:
            signal.raise_signal(signal.SIGINT)
        observation, reward, terminated, truncated, info = super().step(action)
        reward += InterruptedEnv.generous * (len(action) % 2)
        if InterruptedEnv.noisy:
            reward += random.random() + float(np.random.rand())  # noqa: NPY002
        return observation, reward, terminated, truncated, info


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def whole(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that nothing interrupted."""
    results = tmp_path_factory.mktemp("whole")
    gymnasium.register("Echo-v0", entry_point=lambda **_: EchoEnv())
    assert main(flags(model, results)) == 0
    del gymnasium.registry["Echo-v0"]
    return run_folder(results)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gymnasium.register("Echo-v0", entry_point=lambda **_: InterruptedEnv())
    InterruptedEnv.at, InterruptedEnv.steps, InterruptedEnv.generous = -1, 0, False
    InterruptedEnv.noisy = False
    yield
    del gymnasium.registry["Echo-v0"]


def flags(model: Path, results: Path, *more: str, updates: int = 4) -> list[str]:
    chosen = {
        "env_name": "Echo-v0",
        "model_name_or_path": model,
        "results_dir": results,
        "num_updates": updates,
        "episodes_per_update": 8,
        "n_rollout_threads": 4,
        "num_mini_batch": 2,
        "max_new_tokens": 6,
        "max_episode_tokens": 300,
        "eval_episodes": 4,
        "eval_interval": 2,
        "save_interval": 3,
        "keep_checkpoints": 2,
        "lr": 1e-2,
        "device": "cpu",
        "tensorboard": "false",
        "log_episodes_interval": 2,
    }
    return [*(f"--{name}={value}" for name, value in chosen.items()), *more]


def run_folder(results: Path, algorithm: str = "TPPO") -> Path:
    return results / "check" / "tiny" / "Echo-v0" / algorithm


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    found: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return found


def test_a_run_leaves_numbers_episodes_checkpoints_a_report_and_a_curve(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(model, tmp_path)) == 0
    folder = run_folder(tmp_path)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == [0, 1, 2, 2, 3, 4, 4]
    assert {"charts/episodic_return", "env/success_rate", "losses/approx_kl"} <= lines[1].keys()
    assert {"critic/weight", "critic/lambda", "losses/steps_cut"} <= lines[1].keys()
    evaluation = json.loads((folder / "evaluation.json").read_text())
    assert evaluation.keys() >= {"before", "after", "seed", "train_cpu_seconds"}
    for side in ("before", "after"):
        wanted = {"greedy", "sampled", "num_tasks", "categories", "multi_turn"}
        assert evaluation[side].keys() >= wanted
        assert evaluation[side]["greedy_strict"] is None  # this environment has no strict verdict
        assert evaluation[side]["stage"] == {"before": "base", "after": "reinforced"}[side]
        assert 0 <= evaluation[side]["greedy"] <= 1
        assert evaluation[side]["categories"]["echo"]["num_tasks"] == 4
    assert (folder / "curve.png").stat().st_size > 1000
    described = json.loads((folder / "config.json").read_text())
    assert described["resolved"] == {
        "device": "cpu",
        "gamma": 0.99,
        "base_dtype": "float32",
        "compute_dtype": "float32",
        "policy_credit": "TPPO's estimate of values weighed by what they know (--lam auto)",
        "step_guard": "KL above 0.05 x max(1, entropy)",
    }
    assert {"command", "machine", "versions"} <= described.keys()
    again = parse_settings(["--config", str(folder / "config.json")])
    assert TrainConfig.from_args(again) == TrainConfig.from_args(
        parse_settings(flags(model, tmp_path))
    )
    assert evaluation["wall_seconds"] > 0
    kept = sorted(path.name for path in (folder / "checkpoints").glob("update_*"))
    assert kept == [
        "update_000002",
        "update_000003",
        "update_000004",
    ]  # the best evaluation so far, and the newest two
    assert (folder / "checkpoints" / "best").resolve().name == "update_000002"
    assert (folder / "checkpoints" / "last").resolve().name == "update_000004"
    for number in (1, 2, 4):  # the first update, and every second one
        written = (folder / "episodes" / f"train_{number:06d}.jsonl").read_text().splitlines()
        assert len(written) == 8
    episode = json.loads(written[0])
    assert episode["messages"][-1]["content"] in episode["prompt"]
    assert sum(episode["tokens"][0]["runs"]) == episode["num_tokens"]
    assert str(folder) in capsys.readouterr().out


def test_ctrl_c_while_starting_is_told_in_one_line(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare_run, "load_policy", interrupted)
    assert main(flags(model, tmp_path)) == 130
    assert "Interrupted while starting" in capsys.readouterr().err
    assert not (run_folder(tmp_path) / "metrics.jsonl").exists()


@pytest.mark.parametrize("flag", ["--mixture=multi_turn_bse=1", "--curriculum=multi_turn_bse:3"])
def test_a_misspelt_category_is_refused_before_a_model_is_loaded(
    flag: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(prepare_run, "load_policy", None)
    assert main([flag, f"--results_dir={tmp_path}"]) == 2
    assert "is multi_turn_base meant?" in capsys.readouterr().err


def test_a_preset_too_large_for_the_embedded_model_is_named_with_the_flag_that_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--preset=8B", f"--results_dir={tmp_path}"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: --preset 8B: sets --max_episode_tokens 8192")
    assert "give --model_name_or_path FOLDER" in error


def test_a_critic_of_more_layers_than_the_model_has_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--critic_layers=99", f"--results_dir={tmp_path}"]) == 2
    assert "--critic_layers: got 99, the model has " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_progress_bar_is_closed_before_the_table_is_printed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []

    class Shown(train_command.Progress):
        def close(self) -> None:
            order.append("closed")
            super().close()

    monkeypatch.setattr(train_command, "Progress", Shown)
    monkeypatch.setattr(train_command, "write_run_report", lambda *_: order.append("table"))
    assert main(flags(model, tmp_path, updates=0)) == 0
    assert order == ["closed", "table"]


def test_equal_seeds_write_equal_bytes_and_other_seeds_do_not(model: Path, tmp_path: Path) -> None:
    for name, seed, tokens in (("one", 5, "none"), ("two", 5, "0"), ("three", 6, "3")):
        more = (f"--seed={seed}", f"--log_tokens_interval={tokens}")
        assert main(flags(model, tmp_path / name, *more)) == 0
    one, two, three = (
        (run_folder(tmp_path / n) / "metrics.jsonl").read_bytes() for n in ("one", "two", "three")
    )
    assert one == two
    assert one != three


@pytest.mark.prove
def test_equal_seeds_write_equal_bytes_where_update_and_rollout_share_prefixes(
    tmp_path: Path,
) -> None:
    written = []
    for name in ("one", "two"):
        short = ["--num_updates=2", "--episodes_per_update=32", "--eval_episodes=16"]
        folder = [f"--results_dir={tmp_path}", f"--experiment_name={name}"]
        assert main(["--algorithm_name=GRPO", *short, *folder]) == 0
        (metrics,) = (tmp_path / name).rglob("metrics.jsonl")
        lines = [json.loads(line) for line in metrics.read_text("utf-8").splitlines()]
        timings = metrics.with_name("timings.jsonl").read_text("utf-8").splitlines()
        lines += [json.loads(line) for line in timings]
        for share in ("perf/shared_token_share", "perf/prefix_hit_share"):
            found = [line[share] for line in lines if share in line]
            assert len(found) == 2
            assert min(found) > 0.1
        written.append(metrics.read_bytes())
    assert written[0] == written[1]


def test_token_files_belong_to_the_episodes_that_are_logged(model: Path, tmp_path: Path) -> None:
    InterruptedEnv.generous = True
    assert main(flags(model, tmp_path, "--log_tokens_interval=3", "--group_size=2")) == 0
    folder = run_folder(tmp_path)
    written = sorted(path.name for path in (folder / "tokens").iterdir())
    assert written == [f"update_00000{n}.npz" for n in (1, 3, 4)]
    for name in written:
        file = read_token_file(folder / "tokens" / name)
        lines = (folder / file.header["episodes_file"]).read_text("utf-8").splitlines()
        for index, (described, line) in enumerate(zip(file.episodes, lines, strict=True)):
            episode, (row,) = json.loads(line), file.rows(index)
            assert episode["task_id"] == described["task_id"]
            assert episode["tokens"][0]["ids"] == file.ids[row].tolist()
            assert "".join(file.texts[row]).startswith(episode["prompt"])
            assert sum(episode["tokens"][0]["runs"][1::2]) == int(file.acted[row].sum())
        assert len({each["group"] for each in file.episodes}) == 4
        moved = file.new_logprobs[file.in_loss] - file.old_logprobs[file.in_loss]
        assert file.header["has_signal"] == bool(np.abs(moved).max() > 0)


def test_a_seed_decides_what_an_environment_draws_from_global_streams(
    model: Path, tmp_path: Path
) -> None:
    InterruptedEnv.noisy = True
    for name in ("one", "two"):
        alone = "--n_rollout_threads=1"  # several share the streams in any order
        assert main(flags(model, tmp_path / name, alone, updates=1)) == 0
        random.random()
    one, two = ((run_folder(tmp_path / n) / "metrics.jsonl").read_bytes() for n in ("one", "two"))
    assert one == two


def test_a_resumed_run_learns_at_the_rates_of_its_own_command(model: Path, tmp_path: Path) -> None:
    assert main(flags(model, tmp_path, updates=3)) == 0
    assert main(flags(model, tmp_path, "--resume", "--lr=0", "--critic_lr=0")) == 0
    before, after = (
        weights(run_folder(tmp_path) / "checkpoints" / f"update_00000{n}") for n in (3, 4)
    )
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_follows_the_run_goes_on_exactly_where_it_was_cut(model: Path, tmp_path: Path) -> None:
    InterruptedEnv.generous = True
    follows = ["--warmup_updates=2", "--overlong=penalty", "--weight_decay=0.1"]
    assert main(flags(model, tmp_path / "whole", *follows)) == 0
    assert main(flags(model, tmp_path / "cut", *follows, updates=3)) == 0
    assert main(flags(model, tmp_path / "cut", *follows, "--resume")) == 0
    whole, cut = (
        (run_folder(tmp_path / name) / "metrics.jsonl").read_text().splitlines()[-2]
        for name in ("whole", "cut")
    )
    assert whole == cut


def test_the_number_of_environments_changes_no_episode_of_the_first_rollout(
    model: Path, tmp_path: Path
) -> None:
    texts = []
    for count in (1, 7):
        arguments = flags(
            model,
            tmp_path / str(count),
            f"--n_rollout_threads={count}",
            "--log_episodes_interval=1",
        )
        assert main([*arguments, "--num_updates=1"]) == 0
        texts.append(
            (run_folder(tmp_path / str(count)) / "episodes" / "train_000001.jsonl").read_text()
        )
    assert texts[0] == texts[1]


# Steps of the run: 16 an evaluation (4 tasks, 2 steps, twice), 16 a rollout; evaluations at 0, 2
# and 4.
@pytest.mark.parametrize(
    "at", [3, 20, pytest.param(40, marks=pytest.mark.prove), 53, 95], ids=lambda at: f"step-{at}"
)
def test_ctrl_c_then_resume_equals_an_uninterrupted_run(
    model: Path, whole: Path, tmp_path: Path, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    InterruptedEnv.at, InterruptedEnv.steps = at, 0
    assert main(flags(model, tmp_path / "cut")) == 130
    assert "--resume" in capsys.readouterr().out
    assert main(flags(model, tmp_path / "cut", "--resume")) == 0
    cut = run_folder(tmp_path / "cut")
    assert (whole / "metrics.jsonl").read_bytes() == (cut / "metrics.jsonl").read_bytes()
    expected, found = (weights(folder / "checkpoints" / "update_000004") for folder in (whole, cut))
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_run_below_half_of_its_best_says_so_with_the_way_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "config.json").write_text('{"lr": 0.02}')
    counters = Counters()
    for counters.updates, success in enumerate((0.1, 0.6, 0.31, 0.29)):
        latest = {"greedy": success, "greedy_strict": None}
        counters.add_evaluation(latest, strict=False)
        RunNotices(shown=True).warn_of_ruin(counters, TrainConfig(lr=0.02), tmp_path)
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith(
        "update 3: held-out success (greedy) is 0.290, below half of its best, 0.600 after update 1"
    )
    settings = parse_settings(shlex.split(told.split(" train ")[-1]))
    assert (settings.resume, settings.lr) == ("best", 0.01)


def test_a_critic_is_fitted_before_the_first_update_by_the_policy_that_starts(
    model: Path, tmp_path: Path
) -> None:
    InterruptedEnv.generous = True
    plain, warm = tmp_path / "plain", tmp_path / "warm"
    assert main(flags(model, plain, updates=1)) == 0
    assert main(flags(model, warm, "--critic_warmup_episodes=8", updates=1)) == 0
    files = [run_folder(each) / "metrics.jsonl" for each in (plain, warm)]
    lines = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    fit = lines[1].pop(1)
    assert fit["update"] == 0 < fit["critic_fit/tokens"]
    before, after = lines[0][1], lines[1][1]
    assert after["env/success_rate"] == before["env/success_rate"]  # the same episodes
    assert after["episodes"] == before["episodes"] + 8
    assert after["env_steps"] > before["env_steps"]
    assert after["critic/values_mean"] != 0 == before["critic/values_mean"]


def test_a_window_holds_all_that_the_last_updates_collected(model: Path, tmp_path: Path) -> None:
    """Also the groups that dynamic sampling leaves out of the update."""
    InterruptedEnv.generous = True
    more = ["--group_size=2", "--dynamic_sampling=2", "--critic_window_updates=2"]
    assert main(flags(model, tmp_path, *more, "--log_episodes_interval=1", updates=3)) == 0
    folder = run_folder(tmp_path)
    acted = []
    for path in sorted((folder / "episodes").glob("train_*.jsonl")):
        rows = [json.loads(line)["tokens"] for line in path.read_text().splitlines()]
        acted.append(sum(sum(row["runs"][1::2]) for (row,) in rows))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if "critic_fit/tokens" in line]
    wanted = [acted[0], acted[0] + acted[1], acted[1] + acted[2]]
    assert [line["critic_fit/tokens"] for line in updates] == wanted
    assert any(line["env/episodes"] > line["env/episodes_learned_from"] for line in updates)


def test_every_option_of_the_update_resumes_to_the_same_end(model: Path, tmp_path: Path) -> None:
    InterruptedEnv.generous = True
    grouped = [
        "--algorithm_name=GRPO",
        "--group_size=2",
        "--dynamic_sampling=3",
        "--group_credit=step",
    ]
    for options in (
        grouped,
        ["--algorithm_name=APPO", "--action_logprob_norm=word", "--critic_warmup_episodes=5"],
    ):
        name = options[0][-4:]
        arguments = [
            *options,
            "--kl_coef=0.1",
            config_flag(tmp_path, kl_mode="reward", dual_clip=3, lam_value=1),
        ]
        arguments += ["--critic_window_updates=2"] * (name != "GRPO")
        arguments += ["--task_sampling=success"]
        whole, cut = tmp_path / name / "whole", tmp_path / name / "cut"
        assert main(flags(model, whole, *arguments, updates=2)) == 0
        assert main(flags(model, cut, *arguments, updates=1)) == 0
        assert main(flags(model, cut, *arguments, "--resume", updates=2)) == 0
        wanted, got = (
            (run_folder(folder, name) / "checkpoints" / "update_000002") for folder in (whole, cut)
        )
        assert all(torch.equal(weights(wanted)[key], weights(got)[key]) for key in weights(wanted))
        played, again = (load_state(folder)["counters"]["successes"] for folder in (wanted, got))
        assert played == again != {}
        lines = (run_folder(whole, name) / "metrics.jsonl").read_text().splitlines()
        assert lines[-1] == (run_folder(cut, name) / "metrics.jsonl").read_text().splitlines()[-1]
        assert json.loads(lines[2]).keys() >= {"losses/kl_ref"}
        if name == "GRPO":
            rounds = [json.loads(line).get("env/episodes", 0) / 8 for line in lines]
            assert set(rounds) <= {0, 1, 2, 3}
            assert max(rounds) > 1  # some groups agreed, so others were played instead


@pytest.mark.parametrize(
    "precisions",
    [
        "--compute_dtype=bfloat16",
        *(
            pytest.param(flags, marks=pytest.mark.prove)
            for flags in (
                "--compute_dtype=bfloat16 --critic=full --kl_coef=0.1",
                "--compute_dtype=bfloat16 cast_lm_head_to_fp32=false",
                "--compute_dtype=bfloat16 base_dtype=bfloat16 --lora_r=2 --critic=lora",
                "--compute_dtype=float32 base_dtype=bfloat16 --lora_r=2 --kl_coef=0.1",
            )
        ),
    ],
)
def test_in_every_precision_a_run_learns_and_equal_seeds_write_equal_bytes(
    model: Path, tmp_path: Path, precisions: str
) -> None:
    InterruptedEnv.generous = True
    words = precisions.split()
    of_file = dict(word.split("=") for word in words if not word.startswith("--"))
    words = [*(word for word in words if word.startswith("--")), config_flag(tmp_path, **of_file)]
    for name in ("one", "two"):
        assert main(flags(model, tmp_path / name, *words, updates=1)) == 0
    one, two = ((run_folder(tmp_path / n) / "metrics.jsonl").read_bytes() for n in ("one", "two"))
    assert one == two
    learned = json.loads(one.splitlines()[1])
    assert learned["losses/first_ratio_deviation"] == 0.0  # both passes round alike
    assert learned["losses/policy_grad_norm"] > 0.0
    assert learned["mismatch/mean_logdiff"] < 0.02
    assert ("mismatch/importance_mean" in learned) == ("--compute_dtype=bfloat16" in precisions)


@pytest.mark.parametrize("critic", [pytest.param("head", marks=pytest.mark.prove), "lora", "full"])
def test_adapters_resume_to_the_same_end_and_are_exported_as_an_ordinary_model(
    model: Path, tmp_path: Path, critic: str
) -> None:
    narrow = config_flag(tmp_path, critic_hidden=8)
    adapters = ["--lora_r=2", f"--critic={critic}", "--kl_coef=0.1", narrow]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main(flags(model, whole, *adapters, updates=2)) == 0
    assert main(flags(model, cut, *adapters, updates=1)) == 0
    assert main(flags(model, cut, *adapters, "--resume", updates=2)) == 0
    last = [run_folder(folder) / "checkpoints" / "update_000002" for folder in (whole, cut)]
    assert all(
        torch.equal(weights(last[0])[name], weights(last[1])[name]) for name in weights(last[0])
    )
    lines = [
        (run_folder(folder) / "metrics.jsonl").read_text().splitlines()[-2]
        for folder in (whole, cut)
    ]
    assert lines[0] == lines[1]
    assert (
        not any("embed" in name for name in weights(last[0])) or critic == "full"
    )  # the base is in no checkpoint
    assert evaluate(["export", f"--checkpoint={last[0]}", f"--output={tmp_path / 'made'}"]) == 0
    assert (
        evaluate(["export", f"--checkpoint={last[0]}", f"--output={tmp_path / 'made'}"]) == 2
    )  # nothing overwritten
    assert main(flags(tmp_path / "made", tmp_path / "on", narrow, updates=0)) == 0
    made = tmp_path / "on" / "check" / "made" / "Echo-v0" / "TPPO" / "metrics.jsonl"
    ends = json.loads((run_folder(whole) / "metrics.jsonl").read_text().splitlines()[-1])
    assert (
        json.loads(made.read_text())["eval/greedy_success_rate"] == ends["eval/greedy_success_rate"]
    )


def test_a_critic_that_is_not_there_is_a_clear_error(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(model, tmp_path, f"--init_critic_from={tmp_path}")) == 2
    assert "--init_critic_from" in capsys.readouterr().err


def test_ctrl_c_amid_learning_waits_until_the_update_is_whole(
    model: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def update_and_interrupt(*arguments: Any, **named: Any) -> dict[str, float]:
        signal.raise_signal(signal.SIGINT)
        return ppo.update(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr("fctncalling.training.training_run.update", update_and_interrupt)
        assert main(flags(model, tmp_path / "cut")) == 130
    assert find_checkpoint(run_folder(tmp_path / "cut") / "checkpoints").name == "update_000001"
    assert main(flags(model, tmp_path / "cut", "--resume")) == 0
    written = run_folder(tmp_path / "cut") / "metrics.jsonl"
    assert written.read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_a_killed_run_goes_on_from_its_last_checkpoint_to_the_same_end(
    model: Path, whole: Path, tmp_path: Path
) -> None:
    # A kill leaves lines behind the checkpoint of update 3; they must not come twice.
    folder = run_folder(tmp_path)
    shutil.copytree(whole, folder, symlinks=True)
    before = (whole / "metrics.jsonl").read_bytes()
    checkpoint = folder / "checkpoints" / "update_000003"
    assert main(flags(model, tmp_path, f"--resume={checkpoint}")) == 0
    assert (folder / "metrics.jsonl").read_bytes() == before


def test_a_second_run_is_refused_by_naming_the_folder_and_the_ways_on(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = flags(model, tmp_path, updates=0)
    assert main(arguments) == 0
    before = (run_folder(tmp_path) / "metrics.jsonl").read_bytes()
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert str(run_folder(tmp_path)) in message
    assert "--resume" in message
    assert "--experiment_name" in message
    assert (run_folder(tmp_path) / "metrics.jsonl").read_bytes() == before


def test_resume_without_a_checkpoint_is_a_clear_error(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(model, tmp_path, "--resume")) == 2
    assert "no checkpoint below" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(tmp_path / "nowhere", tmp_path)) == 2
    assert "--model_name_or_path" in capsys.readouterr().err


def test_a_dataset_alone_is_split_and_its_held_out_share_is_never_trained_on(
    tmp_path: Path,
) -> None:
    entries = [
        {
            "id": f"simple_python_{i}",
            "question": [[{"role": "user", "content": f"number {i}"}]],
            "function": [
                {
                    "name": "f",
                    "description": "F.",
                    "parameters": {
                        "type": "dict",
                        "properties": {"a": {"type": "integer"}},
                        "required": ["a"],
                    },
                }
            ],
            "ground_truth": [{"f": {"a": [i]}}],
        }
        for i in range(10)
    ]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(entries))
    training, held_out = load_bfcl_tasks(TrainConfig(dataset_path=str(path)))
    assert (len(training), len(held_out)) == (8, 2)
    assert {t.id for t in training}.isdisjoint(t.id for t in held_out)
    assert load_bfcl_tasks(TrainConfig(dataset_path=str(path))) == (training, held_out)


def test_help_tells_what_tppo_is_without_loading_torch() -> None:
    code = (
        "import sys; sys.argv = ['train', '--help']\n"
        "from fctncalling.cli.train import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n    assert 'torch' not in sys.modules and 'transformers' not in "
        "sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "Bellman backup with action decomposition" in done.stdout
    assert "not RLlib's" in done.stdout
    assert "--ppo_epoch" in done.stdout


def test_waiting_is_made_passive_before_torch_is_imported() -> None:
    code = (
        "import fctncalling.cli.train, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' "
        "in "
        "sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["PASSIVE", "False"]
