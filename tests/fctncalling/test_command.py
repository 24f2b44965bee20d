"""The one command `fctncalling`, and settings from a file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import fctncalling
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.process_group import SINGLE_PROCESS
from fctncalling.cli.command import main
from fctncalling.cli.train import (
    build_parser,
    command_to_resume,
    parse_command_line,
    parse_settings,
)
from fctncalling.cli.train import main as train
from fctncalling.cli.train_flags import SETTINGS
from fctncalling.training.announce import shell_command
from fctncalling.training.prepare_run import open_log
from fctncalling.training.run_config import RunConfig


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == listed
    for command in ("train", "evaluate", "run", "score", "why", "doctor", "forge", "completion"):
        assert f"\n  {command} " in listed


def test_an_unknown_command_is_one_line_with_the_one_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["trian"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "is train meant?" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", [["evaluate", "lint"], ["lint"]])
def test_subcommands_are_found_with_and_without_evaluate(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert f"usage: fctncalling {' '.join(words)} " in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_completion_is_a_script_that_its_shell_reads(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "algorithm_name" in script
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script, text=True, check=False).returncode == 0


def test_the_module_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fctncalling", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("fctncalling 0.")


@pytest.mark.parametrize(
    ("library", "command"),
    [("torch", "['train']"), ("safetensors", "['export', '--checkpoint', 'x', '--output', 'y']")],
)
def test_a_command_whose_library_is_missing_says_what_to_install(
    library: str, command: str, tmp_path: Path
) -> None:
    program = (
        f"import sys; sys.modules['{library}'] = None\n"
        f"from fctncalling.cli.command import main; sys.exit(main({command}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    wanted = f"this command needs the library {library}: pip install 'fctncalling[train]'"
    assert (done.returncode, done.stderr) == (2, f"error: {wanted}\n")
    assert not any(tmp_path.iterdir())


CORE_ALONE = """
import contextlib, io, sys
sys.modules |= dict.fromkeys(sys.argv[1].split())
from fctncalling.cli.command import commands_overview, main
from fctncalling.cli.registry import subcommands
print(len(commands_overview().splitlines()))
loaded = [name for name in ("fctncalling.envs", "fctncalling.algorithms") if name in sys.modules]
assert not loaded, f"the overview loads {loaded}"
for name in ("train", "evaluate", *subcommands()):
    try:
        with contextlib.redirect_stdout(io.StringIO()) as text:
            main([name, "--help"])
    except SystemExit as ended:
        assert not ended.code, name
    assert f"usage: fctncalling {name}" in text.getvalue(), name
for words in (["credit", "nowhere"], ["doctor", "--model", "nowhere"]):
    assert main(words) == 2
"""


def test_without_optional_libraries_every_command_explains_itself() -> None:
    """And the overview loads no room, so that it comes at once."""
    optional = "torch transformers tokenizers safetensors peft matplotlib yaml httpx mcp shtab"
    done = subprocess.run(
        [sys.executable, "-c", CORE_ALONE, optional], capture_output=True, text=True, check=False
    )
    assert int(done.stdout) > 20, done.stderr
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 2
    assert done.stderr.count("fctncalling[train]") == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("run mine.json", "is --dataset_path mine.json meant?"),
        ("export models/mine", "is --checkpoint models/mine meant?"),
        ("evaluate --model_name_or_path models/mine", "such as run --agent hf:MODEL"),
        ("doctor", "expected fctncalling doctor MODEL"),
    ],
)
def test_what_was_meant_is_named(words: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(words.split())
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_flags_come_before_the_file_and_the_file_before_preset_and_environment(
    tmp_path: Path, suffix: str
) -> None:
    settings = {"preset": "0.5B", "env_name": "calculator", "lr": 3e-5, "eval_dataset_path": None}
    settings |= {"critic_detach": False, "num_updates": 7}
    file = tmp_path / f"mine.{suffix}"
    file.write_text(json.dumps(settings) if suffix == "json" else yaml.safe_dump(settings))
    read = parse_settings(["--config", str(file), "--num_updates", "9"])
    assert (read.lr, read.num_updates, read.critic_detach) == (3e-5, 9, False)
    assert read.preset == "0.5B"
    assert read.num_mini_batch == parse_settings(["--preset", "0.5B"]).num_mini_batch


def test_the_config_of_a_run_gives_its_settings(tmp_path: Path) -> None:
    """Also where a setting is what another preset or environment would have changed."""
    words = ["--preset", "0.1B", "--lr", "0.001", "--env_name", "python_math"]
    before = parse_settings([*words, "--max_grad_norm", "inf", "--resume", "--tensorboard", "no"])
    config = TrainConfig.from_args(before)
    run_config = RunConfig.from_args(before)
    open_log(config, run_config, tmp_path, SINGLE_PROCESS).close()
    after = parse_settings(["--config", str(tmp_path / "config.json")])
    assert TrainConfig.from_args(after) == replace(config, resume=None)
    assert RunConfig.from_args(after) == run_config
    versions = json.loads((tmp_path / "config.json").read_text())["versions"]
    assert versions["fctncalling"] == fctncalling.__version__
    if (Path(fctncalling.__file__).resolve().parents[1] / ".git").exists():
        assert re.fullmatch("[0-9a-f]{40}(-dirty)?", versions["commit"])


def test_an_unknown_flag_names_the_help_that_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    for command, words in ((train, ["--nope"]), (main, ["score", "--input", "x", "--nope"])):
        with pytest.raises(SystemExit):
            command(words)
        every = "--help-all" if command is train else "--help"
        assert f"({every} lists every flag)" in capsys.readouterr().err


ALIAS_BOMB = "[&a0 {x: 1}, " + ", ".join(
    f"&a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(12)
)
ALIAS_BOMB += "]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat: 1e-3", "no setting is called 'learning_rat'"),
        ("lr: fast", 'lr: got "fast", expected a number'),
        ("lr: -1", "lr: got -1, expected a number in"),
        ("- lr", "expected settings by name, such as lr: 1e-5, got list"),
        ("lr: [", "cannot be parsed:"),
        (None, "cannot be read: No such file or directory"),
        ("lr: " + "[" * 5000, "it is nested too deep"),
        ("lr: 1\n" * 60_000, "has more than 262,144 characters"),
        (f"lr: {ALIAS_BOMB}", "aliases (*name) are not read"),
        (f"<<: {ALIAS_BOMB}", "aliases (*name) are not read"),
    ],
)
def test_a_file_that_cannot_be_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    file = tmp_path / "mine.yaml"
    if text is not None:
        file.write_text(text)
    assert train(["--config", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --config {file}: ")
    assert message in error
    assert error.count("\n") == 1


def test_help_shows_the_basic_settings_and_help_all_every_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = {}
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as ended:
            train([flag])
        assert ended.value.code == 0
        texts[flag] = capsys.readouterr().out
    assert "--algorithm_name" in texts["--help"]
    assert "--importance_cap" not in texts["--help"]
    assert "--help-all" in texts["--help"]
    for flag in ("--algorithm_name", "--importance_cap", "--lora_r"):
        assert flag in texts["--help-all"]
    assert "--huber_delta" not in texts["--help-all"]


def test_a_flag_that_left_names_its_successor(capsys: pytest.CaptureFixture[str]) -> None:
    known = build_parser()._option_string_actions
    left = [name for name, setting in SETTINGS.items() if f"--{name}" not in known]
    assert len(left) == 25
    for name in ("torch_dtype", "cut_patience", "critic_warmup_updates", *left):
        with pytest.raises(SystemExit):
            train([f"--{name}=1"])
        error = capsys.readouterr().err
        cure = {
            "torch_dtype": "base_dtype: ..., for --config FILE",
            "cut_patience": "the alarm cut_actions tells",
            "critic_warmup_updates": "--critic_warmup_episodes",
        }
        never = name in ("adam_fused", "tf32", "tree_mask_price")
        assert ("the flag was never one" if never else "the flag went with version 0.") in error
        assert cure.get(name, f"a file has it, {name}: ..., for --config FILE") in error
        assert " meant?" not in error


def test_a_file_of_ones_own_states_settings_that_have_no_flag(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    for more, given in (({}, {"kl_mode", "seed"}), ({"command": "train"}, {"seed"})):
        file.write_text(json.dumps({"kl_mode": "k2", "lr": 1e-5, **more}))
        assert parse_command_line(["--config", str(file), "--seed=2"]).given == given


@pytest.mark.parametrize(
    ("program", "found", "wanted"),
    [
        ("bin/fctncalling", "bin", ("fctncalling train", "fctncalling view")),
        ("bin/fctncalling", "", ("bin/fctncalling train", "bin/fctncalling view")),
        ("clone/train_fctncalling.py", "", ("bin/python clone/train_fctncalling.py", "bin/fctn")),
        ("mine.py", "", ("bin/fctncalling train", "bin/fctncalling view")),
    ],
)
def test_a_command_to_be_copied_is_run_as_this_one_was(
    program: str,
    found: str,
    wanted: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("bin/fctncalling", "bin/python", "clone/train_fctncalling.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / found) if found else "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / program)])
    resume = command_to_resume(["--lr", "1e-3", "--resume", "last"])
    assert resume == f"{wanted[0]} --lr 1e-3 --resume"
    assert shell_command("view").startswith(wanted[1])
    if program.startswith("clone"):
        several = command_to_resume(["--lr=1"], 2)
        assert several == "torchrun --nproc_per_node 2 clone/train_fctncalling.py --lr=1 --resume"
        (tmp_path / "bin" / "fctncalling").unlink()
        assert shell_command("view") == "bin/python clone/evaluate_fctncalling.py view"
