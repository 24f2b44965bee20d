"""The jobs with tools in mid-generation: their models, their settings, and what a run of theirs
leaves.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import re
import shlex
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from fctncalling import embedded_path
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.algorithms.run.logs import results_folder
from fctncalling.cli.train import main, parse_settings
from fctncalling.cli.train_flags import SETTINGS
from fctncalling.lab.export import base_of
from fctncalling.training.run_config import EMBEDDED_MODEL_DEFAULTS, ENV_DEFAULTS, ENV_MODELS


@pytest.mark.parametrize("job", sorted(ENV_DEFAULTS))
def test_a_job_has_defaults_of_its_own_and_a_given_flag_wins(job: str) -> None:
    given = vars(parse_settings(["--env_name", job, "--num_updates", "3"]))
    assert given == {**vars(parse_settings(["--env_name", job])), "num_updates": 3}
    assert (
        vars(parse_settings(["--env_name", job])).items()
        >= {"env_name": job, **ENV_DEFAULTS[job]}.items()
    )


def test_the_embedded_model_has_the_settings_of_the_speedrun_and_other_models_the_plain_ones(
    tmp_path: Path,
) -> None:
    plain = {"config": None, **{name: each.default for name, each in SETTINGS.items()}}
    assert vars(parse_settings([])) == {**plain, **EMBEDDED_MODEL_DEFAULTS}
    model = {"model_name_or_path": str(tmp_path)}
    assert vars(parse_settings(["--model_name_or_path", str(tmp_path)])) == {**plain, **model}
    preset = vars(parse_settings(["--preset", "0.5B"]))
    assert {name: preset[name] for name in PRESETS["0.5B"]} == PRESETS["0.5B"]


def test_the_jobs_of_the_docs_run_one_after_the_other() -> None:
    """Each writes to a folder of its own, and every job is named."""
    pages = [Path(__file__).parents[2] / f"docs/{name}.md" for name in ("environment", "own_tasks")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages).replace("\\\n", " ")
    lines = re.findall(r"^fctncalling train (.*--env_name (?:\w+).*)$", text, re.M)
    found = [TrainConfig.from_args(parse_settings(shlex.split(line))) for line in lines]
    assert {config.env_name for config in found} == set(ENV_DEFAULTS)
    assert len({results_folder(config) for config in found}) == len(found)


@pytest.mark.parametrize("name", sorted(ENV_MODELS.values()))
def test_the_committed_model_is_what_its_hashes_say(name: str) -> None:
    folder = embedded_path(name)
    told = json.loads((folder / "SHA256.json").read_text(encoding="utf-8"))
    makers = {"clarify": "make_clarify_model", "team": "make_team_model"}
    maker = makers.get(name, f"make_tool_models --job {name}")
    assert told["command"].startswith(f"python -m fctncalling.lab.embedded.{maker} ")
    files = {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name != "SHA256.json"
    }
    assert told["sha256"] == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }
    assert sum(map(len, files.values())) < 4e6


@pytest.mark.parametrize("job", sorted(ENV_MODELS))
def test_adapters_of_a_job_are_merged_into_its_own_model(job: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"env_name": job, "model_name_or_path": None}))
    assert base_of(tmp_path / "checkpoints" / "update_000001") == str(
        embedded_path(ENV_MODELS[job])
    )


def played(job: str, folder: Path, *flags: str) -> dict[str, dict[str, float]]:
    """Return the evaluation of a run of a job's command."""
    assert (
        main(["--env_name", job, "--results_dir", str(folder), "--tensorboard", "false", *flags])
        == 0
    )
    evaluation: dict[str, dict[str, float]] = json.loads(
        next(folder.rglob("evaluation.json")).read_text(encoding="utf-8")
    )
    return evaluation


def test_the_calculator_model_starts_where_there_is_much_to_learn(tmp_path: Path) -> None:
    before = played("calculator", tmp_path, "--num_updates", "0", "--eval_episodes", "64")["before"]
    assert 0.3 <= before["greedy"] <= 0.7
    assert 0.3 <= before["sampled"] <= 0.7


@pytest.mark.prove
def test_the_calculator_job_reaches_95_percent(tmp_path: Path) -> None:
    evaluation = played("calculator", tmp_path)
    assert evaluation["before"]["greedy"] <= 0.7
    assert evaluation["after"]["greedy"] >= 0.95


@pytest.mark.prove
@pytest.mark.skipif(sys.platform == "win32", reason="there is no executor on Windows")
@pytest.mark.parametrize(
    "flags",
    [(), ("--algorithm_name", "GRPO", "--lora_r", "16", "--lr", "2e-3")],
    ids=["TPPO", "GRPO"],
)
def test_the_python_math_job_gains_25_points(flags: tuple[str, ...], tmp_path: Path) -> None:
    evaluation = played("python_math", tmp_path, *flags)
    assert evaluation["after"]["greedy"] >= evaluation["before"]["greedy"] + 0.25
    assert evaluation["after"]["sampled"] >= evaluation["before"]["sampled"] + 0.25


@pytest.mark.parametrize("env_name", ["Calculator", "ToolText", "PythonMath"])
def test_a_pickled_environment_plays_the_same_episode(env_name: str) -> None:
    with contextlib.closing(gym.make(f"fctncalling/{env_name}-v0")) as env:
        again = pickle.loads(pickle.dumps(env))
        with contextlib.closing(again):
            assert again.reset(seed=3) == env.reset(seed=3)
