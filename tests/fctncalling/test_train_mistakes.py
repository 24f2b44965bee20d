"""A user's mistakes around models, checkpoints and flags: one line that names the culprit and the
cure, exit code 2.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from config_files import config_flag
from tiny_models import save_tiny

from fctncalling.algorithms.config import TrainConfig
from fctncalling.cli.train import main

torch.set_num_threads(1)

Told = Callable[..., str]
SMALL = [
    "--num_updates=0",
    "--episodes_per_update=4",
    "--n_rollout_threads=4",
    "--num_mini_batch=1",
]
SMALL += [
    "--max_new_tokens=4",
    "--max_episode_tokens=1500",
    "--max_steps_per_turn=1",
    "--eval_episodes=1",
]
SMALL += ["--device=cpu", "--tensorboard=false", "--log_episodes_interval=0"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def results(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a results folder with a run that has only begun."""
    folder = tmp_path_factory.mktemp("results")
    assert main([*SMALL, f"--results_dir={folder}", f"--model_name_or_path={model}"]) == 0
    return folder


@pytest.fixture
def told(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Told:
    """Return a function that runs a command beside a run and returns what it was refused with, in
    one line.

    The run is a real one in proofs, else what is looked at first of one.
    """
    model = Path("tiny")
    monkeypatch = request.getfixturevalue("monkeypatch")  # as a model of the hub
    monkeypatch.setattr("fctncalling.model_folder._missing_on_hub", lambda _: "")
    if request.node.get_closest_marker("prove"):
        model = request.getfixturevalue("model")
        shutil.copytree(request.getfixturevalue("results"), tmp_path / "results", symlinks=True)
    else:
        checkpoint(tmp_path).mkdir(parents=True)
        (checkpoint(tmp_path) / "training_state.pt").touch()
        described = dataclasses.asdict(TrainConfig(max_grad_norm=1.0))
        (checkpoint(tmp_path).parents[1] / "config.json").write_text(json.dumps(described))

    def run(*flags: str, clean: bool = True) -> str:
        capsys.readouterr()
        before = sorted(tmp_path.rglob("*"))
        try:
            code = main(
                [
                    *SMALL,
                    f"--results_dir={tmp_path / 'results'}",
                    f"--model_name_or_path={model}",
                    *flags,
                ]
            )
        except SystemExit as ended:
            code = int(str(ended.code))
        assert code == 2
        assert (
            not clean or sorted(tmp_path.rglob("*")) == before
        )  # a start that fails leaves nothing that bars the next one
        line = [
            line for line in capsys.readouterr().err.splitlines() if not line.startswith("INFO")
        ]
        assert len(line) == 1, line
        return line[0]

    return run


def checkpoint(tmp_path: Path) -> Path:
    return (
        tmp_path
        / "results"
        / "check"
        / "tiny"
        / "embedded"
        / "TPPO"
        / "checkpoints"
        / "update_000000"
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lern_rate=1"], "unrecognized arguments: --lern_rate=1"),
        (["--env_processes", "8"], "the flag went with version 0.3: torchrun and --num_rollout_w"),
        (
            ["--experiment_name=x", "--eval_episodes=-1"],
            '--eval_episodes: got "-1", expected a whole number in [1',
        ),
        (["--experiment_names=x"], "is --experiment_name meant?"),
        (["--eval_episode=10"], "is --eval_episodes meant?"),  # no abbreviation is taken
        (["--model=x"], "is --model_name_or_path meant?"),
        (["--model_name_or_path=./no", "--plan"], "no: the model cannot be loaded: there is no su"),
        (["--dataset_path=simple"], "simple: no such file; is BFCL_v4_simple_python.json, the fil"),
        (["--learning_rate=1"], "is --lr meant?"),
        (["--num-updates=1"], "is --num_updates meant?"),
        (["--group_std=false"], "--group_std: no effect without --algorithm_name GRPO"),
        (
            ["--experiment_name=../x"],
            '--experiment_name: got "../x", expected the name of a folder',
        ),
        (
            ["--model_name_or_path=./none"],
            "--model_name_or_path ./none: the model cannot be loaded: there is no such",
        ),
        (["--lr=abc"], '--lr: got "abc", expected a number in [0, inf)'),
        (["--critic=lora"], "--critic: got lora, which needs --lora_r"),
        (["--fsdp"], "--fsdp: one process"),
        (["--dataset_path=/nowhere.json"], "/nowhere.json: no such file"),
        (["--env_name=NoSuch-v0"], '--env_name: got "NoSuch-v0"'),
        (["--env_name=no_module:NoSuch-v0"], "No module named 'no_module'"),
        (["--env_name=CartPole-v1"], "the actions of CartPole-v1 are Discrete(2): expected texts"),
        (["--handler=nope"], '--handler: no handler is called "nope"'),
        (["--resume"], "--resume auto: no checkpoint below"),
        (["--resume=best"], "--resume best: no checkpoint below"),
        (
            ["--resume=/nowhere"],
            "--resume /nowhere: no checkpoint there (training_state.pt is missing)",
        ),
    ],
    ids=lambda it: it[0] if isinstance(it, list) else "",
)
def test_a_new_run_that_cannot_be(told: Told, flags: list[str], words: str) -> None:
    assert words in told("--experiment_name=new", *flags)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([{"base_dtype": "bfloat16"}], "base_dtype: got bfloat16, but without --lora_r"),
        (["--lora_r=2", {"lora_targets": "nope"}], "lora_targets nope"),
        (
            ["--model_name_or_path=/nowhere/at/all"],
            "--model_name_or_path /nowhere/at/all: the model cannot be loaded: "
            "there is no such folder",
        ),
        (["--chat_template=/nowhere"], "--chat_template /nowhere: cannot be read"),
        (["--init_critic_from=/nowhere"], "--init_critic_from: /nowhere holds no critic"),
        (["--results_dir=/dev/null"], "--results_dir /dev/null: cannot be written to"),
    ],
    ids=lambda it: str(it[0]) if isinstance(it, list) else "",
)
def test_a_new_run_whose_files_do_not_do(
    told: Told, flags: list[str | dict[str, str]], words: str, tmp_path: Path
) -> None:
    given = [each if isinstance(each, str) else config_flag(tmp_path, **each) for each in flags]
    assert words in told("--experiment_name=new", *given)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_device_that_is_not_there(told: Told) -> None:
    assert '--device: got "cuda", but torch' in told("--experiment_name=new", "--device=cuda")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--lora_r=2", "--lora_r: got 2, but"),
        ("--critic=full", "was made with head. Give --critic head"),
        ("critic_hidden", "Give critic_hidden 128 to go on with it"),
    ],
)
def test_a_resumed_run_with_settings_that_its_weights_do_not_fit(
    told: Told, flag: str, words: str, tmp_path: Path
) -> None:
    given = flag if flag.startswith("--") else config_flag(tmp_path, **{flag: 64})
    assert words in told("--resume", given)


@pytest.mark.prove
def test_a_checkpoint_of_another_run_is_not_gone_on_from(told: Told, tmp_path: Path) -> None:
    assert "--algorithm_name: got POAD, but" in told(
        f"--resume={checkpoint(tmp_path)}", "--algorithm_name=POAD"
    )
    moved = checkpoint(tmp_path).rename(
        tmp_path / "moved"
    )  # it tells no settings any more, but its numbers do
    assert f"--resume {moved}: it does not fit this run" in told(
        "--experiment_name=other", f"--resume={moved}", clean=False
    )


@pytest.mark.prove
def test_other_settings_that_fit_are_told(
    model: Path, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(results, tmp_path / "results", symlinks=True)
    flags = [
        *SMALL,
        f"--results_dir={tmp_path / 'results'}",
        f"--model_name_or_path={model}",
        "--resume",
        "--lr=0.5",
    ]
    assert main(flags) == 0
    assert "other settings than before: --lr 8e-05 -> 0.5." in capsys.readouterr().out


@pytest.mark.prove
@pytest.mark.parametrize("name", ["model.safetensors", "value_head.safetensors", "config.json"])
@pytest.mark.parametrize("length", [20, None], ids=["cut", "gone"])
def test_a_checkpoint_with_a_broken_file(
    told: Told, tmp_path: Path, name: str, length: int | None
) -> None:
    path = checkpoint(tmp_path) / name
    kept = path.read_bytes()
    path.unlink()
    if length is not None:
        path.write_bytes(kept[:length])
    message = told("--resume", "--num_updates=1")
    assert f"--resume {checkpoint(tmp_path)}: the checkpoint cannot be loaded" in message
    assert "Move that folder away" in message


def test_a_tokenizer_without_a_chat_template_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tiny_models import tiny_tokenizer

    from fctncalling.algorithms.config import SettingError
    from fctncalling.training.load_policy import load_template

    load_template(tiny_tokenizer(None), None)
    assert "no chat template; a plain one stands in" in capsys.readouterr().out
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% for m in %}")
    with pytest.raises(SettingError, match=r"--chat_template .*broken.jinja"):
        load_template(tiny_tokenizer(), str(broken))
