"""A chat template, its ends and its arguments go from --chat_template to checkpoint, export, agent
and gateway.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_templates import SWITCHED
from gateways import TokenScript, running_gateway
from stub_endpoint import endpoint
from tiny_models import CHATML, constant_model, sample_always, tiny_model, tiny_tokenizer
from transformers import AutoTokenizer

from evaluate_fctncalling import main
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.policy.answer_ends import listed_ends
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.template_file import load_template
from fctncalling.algorithms.run.checkpoint import save_checkpoint
from fctncalling.cli.train import main as train
from fctncalling.training.load_policy import load_policy
from fctncalling.training.resume import keep_template
from fctncalling.training.run_config import RunConfig

ADD = {
    "name": "add",
    "description": "Add.",
    "parameters": {
        "type": "dict",
        "properties": {"a": {"type": "integer", "description": "A number."}},
        "required": ["a"],
    },
}


def write_tasks(folder: Path, count: int = 8) -> Path:
    entries = [
        {
            "id": f"simple_python_{i}",
            "question": [[{"role": "user", "content": f"Add {i}."}]],
            "function": [ADD],
            "ground_truth": [{"add": {"a": [i]}}],
        }
        for i in range(count)
    ]
    path = folder / "tasks.json"
    path.write_text(json.dumps(entries))
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a base model: no chat template, and its texts end with <|endoftext|>."""
    folder = tmp_path / "base"
    model, tokenizer = tiny_model(trained=False), tiny_tokenizer(None)
    model.generation_config.eos_token_id, tokenizer.eos_token = 0, "<|endoftext|>"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (tmp_path / "chat.jinja").write_text(CHATML)
    return folder


@pytest.mark.parametrize("lora_r", [0, 2])
def test_a_given_template_and_its_end_lie_in_checkpoint_and_export(
    base: Path, tmp_path: Path, lora_r: int
) -> None:
    config = TrainConfig(model_name_or_path=str(base), lora_r=lora_r)
    given = RunConfig(chat_template=str(tmp_path / "chat.jinja"))
    policy, template = load_policy(config, given, None, torch.device("cpu"))
    run = tmp_path / "run"
    checkpoint = save_checkpoint(
        run / "checkpoints",
        "update_000001",
        policy=policy,
        tokenizer=template.tokenizer,
        state={},
    )
    settings = {"model_name_or_path": str(base), "chat_template_kwargs": {"enable_thinking": False}}
    (run / "config.json").write_text(json.dumps(settings))
    _, again = load_policy(config, RunConfig(), checkpoint, torch.device("cpu"))
    (tmp_path / "chat.jinja").unlink()

    output = tmp_path / "output"
    assert main(["export", "--checkpoint", str(run), "--output", str(output)]) == 0
    assert '{"enable_thinking": false}' in (output / "README.md").read_text()
    end = template.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert listed_ends(str(output)) == [0, end]
    assert lora_r or listed_ends(str(checkpoint)) == [0, end]
    exported = load_template(AutoTokenizer.from_pretrained(output), model=str(output))
    prompt: list[Any] = [{"role": "user", "content": "q"}]
    for each in (again, exported):
        assert each.render_prompt(prompt) == template.render_prompt(prompt)
        assert each.stop_ids == template.stop_ids == {0, end}


def test_a_resumed_run_keeps_the_template_and_arguments_that_nobody_gives_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint, file = tmp_path / "run" / "checkpoints" / "update_000001", tmp_path / "chat.jinja"
    checkpoint.mkdir(parents=True)
    file.write_text(CHATML)
    described = {"chat_template": str(file), "chat_template_kwargs": {"enable_thinking": False}}
    (tmp_path / "run" / "config.json").write_text(json.dumps(described))
    kept = keep_template(RunConfig(), checkpoint)
    assert kept.chat_template is None  # as in version 0.3, whose checkpoints hold the base's own
    assert json.loads(str(kept.chat_template_kwargs)) == {"enable_thinking": False}
    (checkpoint / "chat_template.jinja").write_text(CHATML)
    assert keep_template(RunConfig(), checkpoint).chat_template == str(file)
    assert capsys.readouterr().out == ""
    given = RunConfig(chat_template_kwargs='{"enable_thinking": true}')
    assert keep_template(given, checkpoint).chat_template_kwargs == given.chat_template_kwargs
    assert "before it was" in "".join(capsys.readouterr())
    (tmp_path / "run" / "config.json").write_text("{}")
    assert keep_template(RunConfig(), checkpoint) == RunConfig()


def test_a_record_says_that_the_longest_message_cut_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer, folder = SWITCHED.tokenizer(), tmp_path / "model"
    tokenizer.save_pretrained(folder)
    model, tasks = constant_model(len(tokenizer)), write_tasks(tmp_path, 1)
    words = ["run", "--agent", f"hf:{folder}", "--dataset_path", str(tasks), "--output"]
    for token, cut in (("a", True), ("<|endoftext|>", False)):
        sample_always(model, tokenizer.convert_tokens_to_ids(token))
        model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(["<|endoftext|>"])
        model.save_pretrained(folder)
        output = tmp_path / f"{cut}.jsonl"
        more = ["--max_new_tokens", "3", "--chat_template_kwargs", '{"enable_thinking": false}']
        assert main([*words, str(output), *more]) == 0
        [record] = [json.loads(line) for line in output.read_text().splitlines()]
        assert record["num_actions_truncated"] == int(cut)
        assert [step.get("cut", False) for step in record["steps"]] == [cut]
        assert record["steps"][0]["text"] == ("aaa" if cut else "")
        assert record["chat_template_kwargs"] == '{"enable_thinking": false}'
        for command in ("replay", "score"):
            read = ["--dataset_path", str(tasks)] if command == "replay" else []
            assert main([command, "--input", str(output), *read]) == 0
        assert ("1 answers were cut" in capsys.readouterr().out) is cut
    assert main([*words, str(output), *more, "--resume"]) == 0
    assert main([*words, str(output), "--resume"]) == 2  # other prompts
    assert main([*words, str(tmp_path / "new"), "--chat_template_kwargs", '{"x": 1}']) == 2
    assert "the chat template does not use x" in capsys.readouterr().err


def test_an_endpoint_is_sent_the_arguments_and_its_cut_answers_are_told(tmp_path: Path) -> None:
    from stub_endpoint import raw

    body = {"choices": [{"message": {"content": "I"}, "finish_reason": "length"}]}
    output = tmp_path / "out.jsonl"
    with endpoint(lambda *_: raw(200, json.dumps(body).encode())) as stub:
        words = ["run", "--agent", "openai:m", "--base_url", stub.url, "--output", str(output)]
        tasks = ["--dataset_path", str(write_tasks(tmp_path, 1))]
        assert main([*words, *tasks, "--chat_template_kwargs", '{"enable_thinking": false}']) == 0
    [record] = [json.loads(line) for line in output.read_text().splitlines()]
    assert (record["num_actions_truncated"], record["steps"][0]["cut"]) == (1, True)
    assert stub.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_gateway_s_request_brings_arguments_of_its_own() -> None:
    tokenizer = SWITCHED.tokenizer()
    template = ChatTemplate(tokenizer)
    end, asked = template.end_of_turn_id, [{"role": "user", "content": "q"}]
    engine = TokenScript([[end]] * 4)
    with running_gateway(engine, template) as running:
        client = running.client("one")
        client.chat(asked)
        client.chat(asked, chat_template_kwargs={"enable_thinking": False, "x": 1})
        client.chat(asked, reasoning_effort="low", chat_template_kwargs={"enable_thinking": True})
        for wrong in ({"chat_template_kwargs": [1]}, {"chat_template_kwargs": {"tools": ""}}):
            status, answer = client.ask(
                "POST", "/s/one/v1/chat/completions", {"messages": asked, **wrong}
            )
            assert status == 400, answer
        assert running.session("one").report()["ignored"] == {"x": 1, "reasoning_effort": 1}
        client.close()
    texts = [template.spell(prompt) for prompt in engine.prompts]
    assert [text.endswith("</think>\n\n") for text in texts] == [False, True, False]
    assert texts[0] == texts[2]


QWEN3_LIKE = (
    "{%- if tools %}{{ '<|im_start|>system\nTools:\n<tools>' }}{% for tool in tools %}"
    "{{ '\n' + (tool | tojson) }}{% endfor %}{{ '\n</tools>\nCall by <tool_call>\n"
    '{"name": ..., "arguments": ...}\n</tool_call><|im_end|>\n\' }}{% endif -%}'
    + SWITCHED.source.partition("{% endif -%}")[2].replace(
        "m.role + '\\n' + m.content",
        "m.role + '\\n' + (m.content.split('</think>')[-1].lstrip('\\n') "
        "if m.role == 'assistant' and not loop.last else m.content)",
    )
)
"""Tools in the system message, calls as Hermes's JSON, old thoughts dropped, and a switch."""


@pytest.mark.prove
@pytest.mark.parametrize("thinks", [True, False])
def test_one_whole_way_with_a_template_that_thinks_or_not(tmp_path: Path, thinks: bool) -> None:
    folder, tasks = tmp_path / "model", write_tasks(tmp_path, 12)
    tokenizer, model = SWITCHED.tokenizer(), tiny_model("qwen3", trained=False)
    tokenizer.chat_template = QWEN3_LIKE
    model.generation_config.eos_token_id = [2, 0]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    data = ("--dataset_path", str(tasks))
    assert main(["doctor", "--model", str(folder), *data]) == 0

    kwargs = json.dumps({"enable_thinking": thinks})
    words = [
        *(f"--model_name_or_path={folder}", *data, f"--results_dir={tmp_path / 'results'}"),
        *("--handler=hermes_calls", "--sft_tasks=dataset", "--sft_batch_size=4", "--sft_epochs=1"),
        *("--num_updates=2", "--episodes_per_update=4", "--n_rollout_threads=4", "--device=cpu"),
        *("--max_new_tokens=12", "--eval_episodes=2", "--save_interval=1", "--tensorboard=false"),
        "--keep_checkpoints=2",
        *("--log_episodes_interval=1", "--num_mini_batch=1", f"--chat_template_kwargs={kwargs}"),
    ]
    assert train(words) == 0
    [run] = (tmp_path / "results").glob("*/*/*/*")
    config = json.loads((run / "config.json").read_text())
    assert (config["chat_template_kwargs"], config["algorithm_name"]) == (
        {"enable_thinking": thinks},
        "TPPO",
    )
    shut = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    for file in sorted(run.glob("episodes/train_*.jsonl")):
        for line in map(json.loads, file.read_text().splitlines()):
            assert line["prompt"].endswith(shut) is not thinks
            [row] = line["tokens"]  # one step, so one row
            last, acted = row["ids"][-1], row["runs"][1]
            cut = [step.get("cut", False) for step in line["steps"]]
            assert line["num_actions_truncated"] == sum(cut)
            assert cut == [last not in (0, 2)]  # an end of the model, or the cap
            assert acted == 12 if cut[0] else acted <= 12

    shutil.move(run / "metrics.jsonl", tmp_path / "whole.jsonl")
    shutil.copy(tmp_path / "whole.jsonl", run / "metrics.jsonl")
    back = f"--resume={run / 'checkpoints' / 'update_000001'}"
    assert train([each for each in words if "kwargs" not in each] + [back]) == 0
    assert (run / "metrics.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert json.loads((run / "config.json").read_text())["chat_template_kwargs"] == {
        "enable_thinking": thinks
    }

    output = tmp_path / "output"
    assert main(["export", "--checkpoint", str(run), "--output", str(output)]) == 0
    assert kwargs in (output / "README.md").read_text()
    template = load_template(
        AutoTokenizer.from_pretrained(output), model=str(output), kwargs=kwargs
    )
    assert template.stop_ids == {0, 2}
    from transformers import AutoModelForCausalLM

    served: Any = AutoModelForCausalLM.from_pretrained(output)
    engine = GenerationEngine(served.eval(), template.stop_ids, max_new_tokens=12)
    with running_gateway(engine, template, max_episode_tokens=4096) as running:
        answers = tmp_path / "answers.jsonl"
        more = ["--form", "tool_call", "--max_new_tokens", "12", "--concurrency", "1"]
        url = f"{running.server.address}/v1"
        ours = ["run", "--agent", f"hf:{output}", "--chat_template_kwargs", kwargs, *more]
        assert main([*ours, *data, "--output", str(tmp_path / "local.jsonl")]) == 0
        asked = ["run", "--agent", "openai:output", "--base_url", url, *more]
        assert main([*asked, *data, "--output", str(answers)]) == 0
    texts = [
        [json.loads(line)["steps"][0]["text"] for line in path.read_text().splitlines()]
        for path in (tmp_path / "local.jsonl", answers)
    ]
    assert len(texts[0]) == len(texts[1]) == 12
    assert sorted(texts[0]) == sorted(texts[1])  # greedy, the same prompts
