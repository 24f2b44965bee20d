"""A real pretrained model, SmolLM2-135M-Instruct as import-model writes it: engine, start check,
LoRA, full fine-tuning and the supervised stage. FCTNCALLING_SMOLLM2 names its folder.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from pretrained_model import FOLDER, needs_smollm2

from evaluate_fctncalling import main as evaluate
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Request
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.supervised import SupervisedLearner
from fctncalling.cli.train import main as train
from fctncalling.data.bfcl import load_tasks
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.training.demonstrations import play_ground_truths
from fctncalling.training.prepare_run import check_template

pytestmark = [pytest.mark.prove, needs_smollm2]
QUESTIONS = (
    "What is the capital of France?",
    "Write a Python function that adds two numbers.",
    "Count from 10 to  20.",
)


@pytest.fixture(scope="module")
def model() -> Any:
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(FOLDER).eval()


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    from transformers import AutoTokenizer

    return ChatTemplate(AutoTokenizer.from_pretrained(FOLDER))


def prompt(template: ChatTemplate, question: str) -> list[int]:
    return template.render_prompt([{"role": "user", "content": question}], [], "")


def test_the_engine_says_greedily_what_transformers_generates(
    model: Any, template: ChatTemplate
) -> None:
    prompts = [prompt(template, question) for question in QUESTIONS]
    engine = GenerationEngine(
        model, template.stop_ids, temperature=0.0, max_new_tokens=24, decode=template.decode
    )
    engine.allocate_slots(len(prompts))
    for slot in range(len(prompts)):
        engine.begin_sequence(slot, slot)
    actions = engine.generate([Request(slot, ids) for slot, ids in enumerate(prompts)])
    for ids, action in zip(prompts, actions, strict=True):
        whole = torch.tensor([ids])
        with torch.no_grad():
            generated = model.generate(whole, max_new_tokens=24, do_sample=False)[0, len(ids) :]
        assert action.ids == generated.tolist()
    assert "Paris" in template.decode(actions[0].ids)


def test_the_engine_and_the_update_have_transformers_log_probabilities(
    model: Any, template: ChatTemplate
) -> None:
    ids = prompt(template, QUESTIONS[1])
    engine = GenerationEngine(
        model, template.stop_ids, temperature=1.0, max_new_tokens=24, decode=template.decode
    )
    engine.allocate_slots(1)
    engine.begin_sequence(0, 5)
    [action] = engine.generate([Request(0, ids)])
    row = torch.tensor([[*ids, *action.ids]])
    acted = torch.zeros_like(row, dtype=torch.bool)
    acted[0, len(ids) :] = True
    with torch.no_grad():
        every = model(row).logits[0, len(ids) - 1 : -1].float().log_softmax(-1)
        policy = ActorCritic(model)
        updated = policy(Batch(row, torch.ones_like(acted), acted)).logprobs
    expected = every.gather(1, torch.tensor(action.ids)[:, None]).squeeze(1)
    torch.testing.assert_close(torch.tensor(action.logprobs), expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(updated, expected, rtol=0, atol=1e-4)


def test_the_doctor_finds_no_fault(
    template: ChatTemplate, capsys: pytest.CaptureFixture[str]
) -> None:
    check_template(template)
    assert evaluate(["doctor", "--model", FOLDER, "--quick", "--json"]) == 0
    assert '"fault"' not in capsys.readouterr().out


@pytest.mark.parametrize("adapters", ["--lora_r=0", "--lora_r=8"])
def test_a_supervised_step_and_an_update_run_with_and_without_adapters(
    adapters: str, tmp_path: Path
) -> None:
    flags = {
        "model_name_or_path": FOLDER,
        "results_dir": tmp_path,
        "dataset_path": few_tasks(tmp_path),
        "num_updates": 1,
        "episodes_per_update": 2,
        "num_mini_batch": 1,
        "n_rollout_threads": 2,
        "eval_episodes": 1,
        "max_new_tokens": 24,
        "max_episode_tokens": 1024,
        "sft_tasks": "dataset",
        "sft_batch_size": 3,
        "save_interval": 0,
        "tensorboard": "false",
        "device": "cpu",
    }
    assert train([*(f"--{name}={value}" for name, value in flags.items()), adapters]) == 0
    [log] = tmp_path.rglob("metrics.jsonl")
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    [step] = [line for line in lines if "sft/loss" in line]
    assert 0.3 < step["sft/loss"] < 5.0
    assert step["sft/grad_norm"] > 0


def few_tasks(folder: Path) -> Path:
    """Return a file of four tasks in BFCL's form."""
    lines = []
    for number, city in enumerate(("Oslo", "Rome", "Lima", "Cairo")):
        question = [[{"role": "user", "content": f"What is the weather in {city}?"}]]
        parameters = {"type": "dict", "properties": {"city": {"type": "string"}}}
        doc = {"name": "weather", "description": "Tells the weather.", "parameters": parameters}
        doc["parameters"] = {**parameters, "required": ["city"]}
        lines.append(
            {
                "id": f"simple_python_{number}",
                "question": question,
                "function": [doc],
                "ground_truth": [{"weather": {"city": [city]}}],
            }
        )
    path = folder / "few.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_shared_prefixes_change_no_gradient_and_take_less_time(
    template: ChatTemplate, tmp_path: Path
) -> None:
    tasks = load_tasks(few_tasks(tmp_path))
    shown = play_ground_truths(
        tasks, lambda some: FunctionCallingEnv(tasks=some), template, "", 2048
    )
    found, seconds = {}, {}
    for shares in (True, False, True, False):
        policy = ActorCritic.load(FOLDER)
        config = TrainConfig(sft_tasks="x", sft_batch_size=4, share_prefixes=shares)
        learner = SupervisedLearner(policy, shown, config)
        began = time.process_time()
        metrics = learner.compute_gradient()
        seconds[shares] = time.process_time() - began
        found[shares] = (
            metrics["loss"],
            {name: it.grad for name, it in policy.named_parameters() if it.grad is not None},
        )
    print(f"CPU seconds a token: { ({k: v / metrics['tokens'] for k, v in seconds.items()}) }")
    assert found[True][0] == pytest.approx(found[False][0], rel=1e-5)
    for name, gradient in found[False][1].items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(found[True][1][name], gradient, rtol=1e-4, atol=1e-5 * scale)
    assert seconds[True] < 0.9 * seconds[False]
