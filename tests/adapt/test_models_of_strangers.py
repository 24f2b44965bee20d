"""Model folders and adapters of strangers: none of their code runs, and one line says so."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from fctncalling.cli.command import main
from fctncalling.data.bfcl import embedded_path

ROOT = Path(__file__).parents[2]
EVIL = """
from pathlib import Path
Path({mark!r}).write_text("ran")
from transformers import PretrainedConfig, PreTrainedTokenizerFast, LlamaForCausalLM
class EvilConfig(PretrainedConfig):
    model_type = "evil"
class EvilModel(LlamaForCausalLM):
    pass
class EvilTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Return the file that the evil module writes when it runs."""
    return tmp_path / "mark"


@pytest.fixture
def specification(tmp_path: Path) -> str:
    schema = {"properties": {"zone": {"type": "string", "enum": ["lawn", "beds"]}}}
    tools = [{"name": "water_zone", "description": "Water a zone.", "parameters": schema}]
    (tmp_path / "api.json").write_text(json.dumps(tools), "utf-8")
    return str(tmp_path / "api.json")


def evil_model(folder: Path, mark: Path, *, known_type: bool) -> Path:
    """Write a model folder whose module marks that it ran: as config, model and tokenizer."""
    shutil.copytree(embedded_path("model"), folder)
    (folder / "evil.py").write_text(EVIL.format(mark=str(mark)), "utf-8")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["auto_map"] = {
        "AutoConfig": "evil.EvilConfig",
        "AutoModelForCausalLM": "evil.EvilModel",
        "AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"],
    }
    if not known_type:
        config["model_type"] = "evil"
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    settings["auto_map"] = {"AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"]}
    settings["tokenizer_class"] = "EvilTokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return folder


@pytest.mark.parametrize(
    "words", ["adapt SPEC --model EVIL --output OUT --minutes 1", "doctor --model EVIL"]
)
def test_no_code_of_a_model_folder_runs_though_yes_is_answered(
    words: str,
    specification: str,
    tmp_path: Path,
    mark: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    evil = evil_model(tmp_path / "evil", mark, known_type=False)
    places = {"SPEC": specification, "EVIL": str(evil), "OUT": str(tmp_path / "out")}
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    assert main([places.get(word, word) for word in words.split()]) != 0
    assert not mark.exists()
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert str(evil) in said.err + said.out


def test_every_loading_call_of_the_product_refuses_code() -> None:
    call = re.compile(r"\bAuto(?:Config|Tokenizer|Model\w*)\.from_(?:pretrained|config)\(")
    places = [*(ROOT / "fctncalling").rglob("*.py"), *(ROOT / "algorithms").rglob("*.py")]
    calls = 0
    for path in places:
        text = path.read_text("utf-8")
        for found in call.finditer(text):
            rest = text[found.end() : found.end() + 300]
            if rest.startswith("NAME)"):
                continue  # a message that names the call
            calls += 1
            depth, end = 1, 0
            while depth:
                depth += {"(": 1, ")": -1}.get(rest[end], 0)
                end += 1
            assert "trust_remote_code=False" in rest[:end], (path, rest[:end])
    assert calls > 15


def write_evil_pickle(path: Path, mark: Path) -> None:
    """Write weights that touch a file when they are read as a pickle."""

    class Runs:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (mark,)

    torch.save({"x": Runs()}, path)


@pytest.mark.parametrize(
    "words", ["train --model_name_or_path", "gateway --port 0 --output out --model"]
)
def test_weights_that_are_a_pickle_of_more_than_tensors_are_refused_in_one_line(
    words: str,
    tmp_path: Path,
    mark: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(embedded_path("model"), evil := tmp_path / "evil")
    (evil / "model.safetensors").unlink()
    write_evil_pickle(evil / "pytorch_model.bin", mark)
    assert main([*words.split(), str(evil)]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert "its weights are a pickle" in line
    assert "weights_only" not in line
    assert not mark.exists()


def test_an_adapter_that_is_a_pickle_is_refused_in_one_line(
    tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "target_modules": ["q_proj"]}
    (adapter / "adapter_config.json").write_text(json.dumps(config), "utf-8")
    write_evil_pickle(adapter / "adapter_model.bin", mark)
    flags = ["--checkpoint", str(adapter), "--base", str(embedded_path("model"))]
    assert main(["export", *flags, "--output", str(tmp_path / "made")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "adapter_model.bin is a pickle" in error
    assert "weights_only" not in error
    assert not mark.exists()
