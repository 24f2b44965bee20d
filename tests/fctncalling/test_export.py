"""`export` finds the last checkpoint of a run, and writes a model whole or not at all."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny_models import save_tiny
from transformers import AutoModelForCausalLM, AutoTokenizer

from evaluate_fctncalling import main
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.value_head import save_critic
from fctncalling.algorithms.run.checkpoint import STATE_FILE
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab import export
from fctncalling.training.load_policy import critic_kind


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run with two checkpoints of the embedded model; the older one holds another file."""
    folder = tmp_path / "run" / "checkpoints"
    for name in ("update_000010", "update_000020"):
        shutil.copytree(embedded_path("model"), folder / name)
        (folder / name / STATE_FILE).write_bytes(b"")
    (folder / "update_000010" / "tokenizer_old.json").write_text("{}")
    (folder / "last").symlink_to("update_000020")
    return folder.parent


@pytest.mark.parametrize("given", [".", "checkpoints", "checkpoints/last"])
def test_a_run_s_folder_stands_for_its_last_checkpoint(
    given: str, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run_folder.parent / "model"
    style = {} if given == "." else {"prompt_style": "compact"}
    (run_folder / "config.json").write_text(json.dumps(style))
    assert main(["export", "--checkpoint", str(run_folder / given), "--output", str(output)]) == 0
    following = capsys.readouterr().out.splitlines()[-1]
    few = "--category multiple --limit 40"
    assert following.startswith(f"next: fctncalling run --agent hf:{output} {few} ")
    assert following.endswith(" --prompt_style compact") == bool(style)
    assert (output / "model.safetensors").is_file()
    assert not (output / "tokenizer_old.json").exists()
    assert sorted(path.name for path in run_folder.parent.iterdir()) == ["model", "run"]


def test_the_next_command_of_a_runs_page_exports_its_model(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_folder / "episodes").mkdir()
    episode = {"task_id": "t", "steps": [], "success": True}
    (run_folder / "episodes/greedy_000020.jsonl").write_text(json.dumps(episode))
    assert main(["view", str(run_folder)]) == 0
    *_, following = capsys.readouterr().out.splitlines()
    monkeypatch.chdir(run_folder.parent)
    assert main(shlex.split(following.removeprefix("next: fctncalling "))) == 0
    assert (run_folder.parent / "my_model/model.safetensors").is_file()


def test_a_server_finds_the_models_weights_alone_and_the_trainer_the_value_head_too(
    run_folder: Path,
) -> None:
    policy = ActorCritic.load(embedded_path("model"))
    torch.nn.init.normal_(policy.value_head.out.weight)
    checkpoint = run_folder / "checkpoints" / "update_000020"
    save_critic(checkpoint, policy.value_head, None)
    output = run_folder.parent / "model"
    assert main(["export", "--checkpoint", str(run_folder), "--output", str(output)]) == 0
    assert [path.name for path in output.glob("*.safetensors")] == ["model.safetensors"]
    for folder in (output, checkpoint):  # the latter as export wrote it before
        assert critic_kind(folder) == "head"
        assert torch.equal(
            ActorCritic.load(folder).value_head.out.weight, policy.value_head.out.weight
        )


def test_an_adapter_alone_becomes_a_model_with_the_bases_tokenizer(tmp_path: Path) -> None:
    base, adapter, output = embedded_path("model"), tmp_path / "adapter", tmp_path / "model"
    adapted = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base), LoraConfig(r=2, target_modules="all-linear")
    )
    for name, weights in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.constant_(weights, 0.01)
    adapted.save_pretrained(adapter)
    command = ["export", "--checkpoint", str(adapter), "--output", str(output)]
    assert main([*command, "--base", str(base)]) == 0
    known, written = (AutoTokenizer.from_pretrained(folder) for folder in (base, output))
    assert written.chat_template == known.chat_template
    ids = known("List my files.", return_tensors="pt").input_ids
    assert written("List my files.").input_ids == ids[0].tolist()
    with torch.no_grad():
        wanted = adapted.eval()(ids).logits
        found = AutoModelForCausalLM.from_pretrained(output).eval()(ids).logits
    assert torch.allclose(found, wanted, atol=1e-4)


def test_torn_weights_are_named(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn = run_folder / "checkpoints/update_000020/model.safetensors"
    torn.write_bytes(torn.read_bytes()[:1000])
    output = run_folder.parent / "model"
    assert main(["export", "--checkpoint", str(run_folder), "--output", str(output)]) == 2
    assert f"--checkpoint {torn}: " in capsys.readouterr().err
    assert not output.exists()


def test_several_checkpoints_give_the_mean_of_their_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for shift, folder in enumerate(folders):
        shutil.copytree(embedded_path("model"), folder)
        model = AutoModelForCausalLM.from_pretrained(folder)
        for weight in model.parameters():
            torch.nn.init.constant_(weight, shift**2)  # 0, 1 and 4
        model.save_pretrained(folder)
    output = tmp_path / "mean"
    command = ["export", "--checkpoint", str(folders[0]), "--output", str(output)]
    assert main([*command, "--average_with", *map(str, folders[1:])]) == 0
    for weight in AutoModelForCausalLM.from_pretrained(output).parameters():
        assert torch.allclose(weight, torch.tensor(5 / 3))
    assert critic_kind(output) is None

    save_tiny(tmp_path / "other")
    command = ["export", "--checkpoint", str(folders[0]), "--output", str(tmp_path / "new")]
    for wrong, told in (("other", "expected the same model"), ("none", "no such folder")):
        assert main([*command, "--average_with", str(tmp_path / wrong)]) == 2
        error = capsys.readouterr().err
        assert f"--average_with {tmp_path / wrong}: " in error
        assert told in error
        assert not (tmp_path / "new").exists()


def test_a_folder_without_a_checkpoint_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", "--checkpoint", str(tmp_path), "--output", str(tmp_path / "model")]
    for written in ((), ("config.json", "metrics.jsonl")):  # none; a run ended before it saved
        for name in written:
            (tmp_path / name).write_text("{}")
        assert main(command) == 2
        [line] = capsys.readouterr().err.splitlines()
        told = f"--checkpoint {tmp_path}: no checkpoint is there or in {tmp_path}/checkpoints"
        assert told in line
        assert sorted(each.name for each in tmp_path.iterdir()) == sorted(written)


def test_a_failed_export_leaves_nothing(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(export, "_copy_tokenizer_and_critic", full)
    output = run_folder.parent / "model"
    assert main(["export", "--checkpoint", str(run_folder), "--output", str(output)]) == 2
    assert "No space left" in capsys.readouterr().err
    assert list(run_folder.parent.iterdir()) == [run_folder]


def test_a_killed_export_leaves_no_model_under_its_name(run_folder: Path) -> None:
    output = run_folder.parent / "model"
    child = (
        "import os, signal, sys\nfrom evaluate_fctncalling import main\n"
        "from fctncalling.lab import export\n"
        "export._copy_tokenizer_and_critic = "
        "lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\nmain(sys.argv[1:])\n"
    )
    words = ["export", "--checkpoint", str(run_folder), "--output", str(output)]
    killed = subprocess.run([sys.executable, "-c", child, *words], check=False, capture_output=True)
    assert killed.returncode == -9
    assert not output.exists()
    assert main(words) == 0
