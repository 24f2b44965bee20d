"""The doctor names what is wrong with a template or a set-up, and passes what is sound."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_templates import AWKWARD, SHAPES
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from stub_vllm import vllm_stub
from tiny_models import CHATML, save_tiny, tiny_model, tiny_tokenizer
from tokenizers import normalizers

from evaluate_fctncalling import main
from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.cli.train import parse_settings
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.doctor import HealthCheck, exit_code, logprob_findings
from fctncalling.lab.doctor.command import issue_markdown, terminal_text, words_to_train
from fctncalling.lab.doctor.examine import ExaminationResult, ExaminationSettings, examine
from fctncalling.lab.doctor.template_findings import template_findings
from fctncalling.training.prepare_run import check_template

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")


@pytest.mark.parametrize("shape", SHAPES)
def test_sound_templates_pass(shape: str) -> None:
    found = template_findings(SHAPES[shape].tokenizer())
    assert exit_code(found) == 0
    assert [each.message for each in found if each.level == "fault"] == []


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("Qwen3", "earlier reasoning (<think>) is dropped"),
        ("Mistral", "the tools move to the last user message"),
        ("Gemma", "the template has no system role"),
        ("GLM", "'<|user|>' or '<|observation|>' ends an answer: it is learned"),
        ("SmolLM2", "the template has no place for tools. The system message describes them"),
    ],
)
def test_what_is_peculiar_of_a_sound_template_is_noted(shape: str, message: str) -> None:
    notes = [each.line for each in template_findings(SHAPES[shape].tokenizer())]
    assert sum(message in line for line in notes) == 1


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_templates_are_named_in_one_line(name: str) -> None:
    shape, level, message = AWKWARD[name]
    found = template_findings(shape.tokenizer())
    [named] = [each for each in found if message in each.message]
    assert named.level == level
    assert "\n" not in named.line
    assert exit_code(found) == (1 if level == "fault" else 0)


def test_every_note_and_fault_says_why_it_matters_and_what_to_do() -> None:
    tokenizers = [each.tokenizer() for each in SHAPES.values()]
    tokenizers += [shape.tokenizer() for shape, _, _ in AWKWARD.values()]
    found = [each for one in tokenizers for each in template_findings(one) if each.level != "sound"]
    assert len({each.check for each in found}) > 10
    assert [each.line for each in found if not each.cure] == []
    silent = {each.check for each in found if not each.why}
    assert silent <= {"append-only", "generation prompt"}, "where it has no cost"
    jargon = ("rollout", "policy", "header", "boundar", "nats", "re-tokenis", "objective")
    assert [line for line in (each.line for each in found) if any(map(line.count, jargon))] == []
    assert [each.line for each in found if "?." in each.line] == []


def test_a_run_starts_with_sound_templates_only() -> None:
    check_template(ChatTemplate(SHAPES["Qwen3"].tokenizer()))
    with pytest.raises(SettingError) as refused:
        check_template(ChatTemplate(AWKWARD["no generation prompt"][0].tokenizer()))
    assert "--no_doctor trains all the same" in str(refused.value)


@pytest.fixture(scope="module")
def sound_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "sound")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of four embedded tasks, one of them of several turns."""
    lines = embedded_path("held_out").read_text().splitlines()
    truths = {
        each["id"]: each["ground_truth"]
        for each in map(
            json.loads,
            (embedded_path("possible_answer") / "held_out.json").read_text().splitlines(),
        )
    }
    entries = [json.loads(line) for line in lines]
    chosen = [*entries[:3], next(each for each in entries if "multi_turn" in each["id"])]
    folder = tmp_path_factory.mktemp("tasks")
    docs = embedded_path("multi_turn_func_doc")
    shutil.copytree(docs, folder / "multi_turn_func_doc")
    path = folder / "tasks.json"
    path.write_text(json.dumps([{**each, "ground_truth": truths[each["id"]]} for each in chosen]))
    return path


def adapter(folder: Path, *, trained: bool) -> Path:
    """Write an adapter of the tiny model, with weights or as it is made."""
    config = LoraConfig(task_type="CAUSAL_LM", r=2, target_modules="all-linear")
    adapted: Any = get_peft_model(tiny_model(trained=False), config)
    if trained:
        torch.manual_seed(1)
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight)
    adapted.save_pretrained(str(folder))
    return folder


def faults(found: list[HealthCheck]) -> list[str]:
    return [each.line for each in found if each.level == "fault"]


def test_a_sound_model_with_its_trained_adapter_served_passes_every_check(
    sound_model: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logprob_findings, "MAX_SERVED_TOKENS", 2)  # the stub is slow
    trained = adapter(tmp_path / "adapter", trained=True)
    with vllm_stub(sound_model) as server:
        found = examine(
            ExaminationSettings(str(sound_model), tasks, adapter=trained, vllm_url=server.url)
        )
        assert server.adapters == {}  # it is taken from the server again
    assert faults(found.findings) == []
    assert exit_code(found.findings) == 0
    by_check = {each.check: each for each in found.findings}
    assert by_check["engine"].figures["largest"] < 1e-3
    assert by_check["vLLM"].figures["mean"] < 1e-3
    assert "(turn 1 " in by_check["vLLM"].message
    assert by_check["adapter"].figures["largest"] > 0.01
    # shares: an independent count over what was rendered
    marked = [span for span in found.spans if span.author != "context"]
    tokenizer = tiny_tokenizer()
    assert [span.text for span in found.spans if span.author == "end"] == ["<|im_end|>"] * (
        sum(span.author == "end" for span in marked)
    )
    assert all(
        len(tokenizer.encode(span.text, add_special_tokens=False)) == span.num_tokens
        for span in marked
    )
    for text in (
        terminal_text("m", found, coloured=True),
        issue_markdown("m", found),
    ):
        assert all(check in text for check in by_check)


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def smaller_vocabulary(folder: Path) -> None:
    tiny_model(vocabulary=100, trained=False).save_pretrained(folder)


BROKEN: dict[str, tuple[Callable[[Path], Any], int, str]] = {
    "no folder": (shutil.rmtree, 2, "there is no such folder"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), 2, "has no weights"),
    "tokenizer of another model": (smaller_vocabulary, 1, "the model knows 100"),
    "template of another model": (
        lambda f: (f / "chat_template.jinja").write_text(
            AWKWARD["closing mark of another model"][0].source
        ),
        1,
        "'<|eot_id|>', which is no token of the tokenizer",
    ),
    "ends answers elsewhere": (
        lambda f: edit_json(f / "generation_config.json", eos_token_id=[2, 3]),
        1,
        "ends answers at '!', an ordinary token of texts",
    ),
    "context too short": (
        lambda f: edit_json(f / "config.json", max_position_embeddings=96),
        1,
        "context holds 96",
    ),
    "weights that are not finite": (
        lambda f: edit_weights(f, lambda w: w["model.norm.weight"].fill_(float("nan"))),
        1,
        "1 weights are not finite (NaN or infinite): model.norm.weight",
    ),
    "weights that are missing": (
        lambda f: edit_weights(f, lambda w: w.pop("model.norm.weight")),
        1,
        "1 weights are in no file and start at random: model.norm.weight",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_set_ups_are_named_in_one_line(
    name: str, sound_model: Path, tasks: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(sound_model, folder)
    spoil, code, message = BROKEN[name]
    spoil(folder)
    found = examine(ExaminationSettings(str(folder), tasks)).findings
    [named] = [each for each in found if message in each.line]
    assert exit_code(found) == code
    assert "\n" not in named.line


def test_an_adapter_that_changes_nothing_is_named(
    sound_model: Path, tasks: Path, tmp_path: Path
) -> None:
    untrained = adapter(tmp_path / "adapter", trained=False)
    found = examine(ExaminationSettings(str(sound_model), tasks, adapter=untrained)).findings
    [line] = faults(found)
    assert "changes nothing that the model says. It is untrained" in line


def test_a_server_that_serves_another_adapter_is_named(
    sound_model: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logprob_findings, "MAX_SERVED_TOKENS", 2)
    trained = adapter(tmp_path / "adapter", trained=True)
    untrained = adapter(tmp_path / "untrained", trained=False)
    with vllm_stub(sound_model) as server:
        load = server.load
        server.load = lambda name, folder: load(name, str(untrained))  # type: ignore[method-assign]
        found = examine(
            ExaminationSettings(str(sound_model), tasks, adapter=trained, vllm_url=server.url)
        ).findings
    [line] = faults(found)
    assert "with the base model" in line


def test_an_engine_that_tells_other_log_probabilities_is_named(
    sound_model: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = logprob_findings.GenerationEngine
    monkeypatch.setattr(
        logprob_findings,
        "GenerationEngine",
        lambda *args, **keywords: engine(*args, **keywords, temperature=0.7),
    )
    [line] = faults(examine(ExaminationSettings(str(sound_model), tasks)).findings)
    assert "between playing and learning" in line


def test_what_cannot_be_checked_is_exit_code_2(
    sound_model: Path, tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["doctor", "--model", str(sound_model), "--quick"]
    assert main([*model, "--dataset_path", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().out
    assert main([*model, "--chat_template", str(tmp_path / "none")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert main([*model, "--dataset_path", str(tasks), "--json"]) == 0
    told = capsys.readouterr()
    assert told.err.splitlines()[0] == "examining: chat template ..."
    report = json.loads(told.out)
    assert report["exit_code"] == 0
    assert "".join(span["text"] for span in report["episode"]["spans"]).count("<|im_end|>") > 4


@pytest.mark.parametrize("gpu", [False, True])
def test_the_command_that_comes_next_is_a_short_run_with_the_prompt_of_the_example(
    gpu: bool, sound_model: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    args = argparse.Namespace(model="my-model", dataset_path=None)
    template = SHAPES["SmolLM2"].tokenizer().chat_template
    found = examine(ExaminationSettings(str(sound_model), tasks, template, quick=True))
    settings = parse_settings([*words_to_train(args, found)])
    assert (settings.plan, settings.model_name_or_path) == ("text", "my-model")
    assert (settings.num_updates, settings.sft_tasks) == ((40, None) if gpu else (0, "dataset"))
    assert settings.prompt_style == ("bfcl" if gpu else "compact")
    prompt = "".join(span.text for span in found.spans)
    assert ('"parameters":' in prompt) is gpu  # JSON, or signatures
    assert f"--prompt_style {settings.prompt_style};" in terminal_text("m", found, coloured=False)
    taking = parse_settings([*words_to_train(args, ExaminationResult())])
    assert taking.prompt_style == "bfcl"


def test_tool_text_that_stays_special_and_lost_characters_are_named() -> None:
    visible = "(m.content | replace('\u2060', ''))"  # what keeps special strings apart is removed
    invisible, capitals = tiny_tokenizer(CHATML.replace("m.content", visible)), tiny_tokenizer()
    capitals.backend_tokenizer.normalizer = normalizers.Lowercase()
    [line] = faults(template_findings(invisible))
    assert line.startswith("3 special tokens work within a tool's result: <|endoftext|>")
    [line] = faults(template_findings(capitals))
    assert line.startswith("the tokenizer does not give back what it read: ")


def test_a_server_that_is_away_is_exit_code_2(sound_model: Path, tasks: Path) -> None:
    found = examine(
        ExaminationSettings(str(sound_model), tasks, vllm_url="http://127.0.0.1:9")
    ).findings
    assert exit_code(found) == 2
    [named] = [each for each in found if each.check == "vLLM"]
    assert named.message.startswith("http://127.0.0.1:9 does not answer: ")


def test_the_embedded_models_are_sound(tasks: Path) -> None:
    for name in ("model", "calculator", "python_math"):
        found = examine(ExaminationSettings(str(embedded_path(name)), tasks, quick=True)).findings
        assert exit_code(found) == 0


def test_tasks_of_an_own_class_are_played_where_it_may_be_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "doctor_desk.py").write_text(
        'class Desk:\n    def ring(self, times: int) -> int:\n        """Ring."""\n'
        "        return times\n"
    )
    task = {
        "id": "multi_turn_base_0",
        "question": [[{"role": "user", "content": "Ring twice."}]],
        "involved_classes": ["doctor_desk.Desk"],
        "initial_config": {"Desk": {}},
        "ground_truth": [["ring(times=2)"]],
    }
    Path("by_path.json").write_text(json.dumps([task]))
    Path("by_name.json").write_text(json.dumps([{**task, "involved_classes": ["Desk"]}]))
    model = str(embedded_path("model"))

    def doctor(path: str, *flags: str) -> tuple[int, dict[str, str], str]:
        code = main(["doctor", "--model", model, "--dataset_path", path, "--json", *flags])
        told = json.loads(capsys.readouterr().out)
        spans = "".join(each["text"] for each in told["episode"]["spans"])
        return code, {each["check"]: each["message"] for each in told["findings"]}, spans

    code, found, _ = doctor("by_path.json")  # nothing is imported, and no check is a fault
    assert (code, "engine" in found) == (2, False)
    assert "--allow_task_tools" in found["tasks"]
    for path, *flags in (
        ("by_path.json", "--allow_task_tools"),
        ("by_name.json", "--tools", "Desk=doctor_desk:Desk"),
    ):
        code, found, spans = doctor(path, *flags)
        assert (code, "engine" in found) == (0, True)
        assert "ring(times)" in spans  # its docs are offered
        assert "[ring(times=2)]" in spans
