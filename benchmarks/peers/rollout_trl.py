"""Our side of the comparison with TRL's GRPO and its `environment_factory`.

The model is random but for its output layer, in which each token of one tool call makes the next
one certain: every action is that call, on both sides, and no training is needed first.
"""

from __future__ import annotations

import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import torch
from figures import Figure
from harness import random_llama
from peers.trl_peer import trl_process
from transformers import AddedToken, AutoTokenizer

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import make_optimisers, update
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.rollout.env_pool import ThreadEnvPool
from fctncalling.data.bfcl import embedded_path

ROLLOUT, WHOLE = 2.0, 1.6
NUM_STEPS, GROUP_SIZE, NUM_QUESTIONS, LR = 3, 8, 4, 1e-7
QUESTIONS = [
    f"Add {n}, 20, 30 and 40, and go on with what comes out." for n in range(NUM_QUESTIONS)
]
ARGUMENTS = ("first", "second", "third", "fourth")
CALL = (
    "<tool_call>",
    '\n{"name": ',
    '"add", ',
    '"arguments": {',
    '"first": ',
    "12, ",
    '"second": ',
    "30, ",
    '"third": ',
    "7, ",
    '"fourth": ',
    "5",
    "}}",
    "\n</tool_call>",
    "<|im_end|>",
)
START = "assistant\n"
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add four numbers.",
        "parameters": {
            "type": "object",
            "properties": {
                name: {"type": "integer", "description": f"The {name} number."}
                for name in ARGUMENTS
            },
            "required": list(ARGUMENTS),
        },
        "return": {"type": "string", "description": "The sum."},
    },
}


class AdderEnv(gymnasium.Env[str, str]):
    """Environment that executes each action's call but the last; half of a group is rewarded."""

    metadata = {"in_process_tools": True}  # noqa: RUF012 - as Gymnasium declares it

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Ask the question of a task, number.member."""
        super().reset(seed=seed)
        question, member = map(int, (options or {})["task_id"].split("."))
        self.pays, self.count = float(member % 2), 0
        return "", {"messages": [{"role": "user", "content": QUESTIONS[question]}], "tools": [TOOL]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer with the sum."""
        self.count += 1
        if self.count == NUM_STEPS:
            return "", self.pays, True, False, {"messages": []}
        call = json.loads(action.split("<tool_call>")[1].split("</tool_call>")[0])
        result = str(sum(call["arguments"].values()))
        return (
            "",
            0.0,
            False,
            False,
            {"messages": [{"role": "tool", "name": "add", "content": result}]},
        )


def against_trl(python: str, rounds: int) -> list[Figure]:
    """Measure CPU seconds of a rollout and of a whole iteration: TRL's over ours."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder)
        job = {
            "kind": "rollout",
            "model": str(folder),
            "questions": QUESTIONS,
            "group_size": GROUP_SIZE,
            "num_steps": NUM_STEPS,
            "turns": rounds + 1,
            "lr": LR,
        }
        with trl_process(python) as trl:
            print("TRL:", trl.ask(job))
            iteration = our_iteration(folder)
            pairs = [(iteration(), trl.ask("go")) for _ in range(rounds + 1)]
            pairs = pairs[1:]  # the first one warms
    ours, theirs = pairs[-1]
    print(f"{NUM_QUESTIONS * GROUP_SIZE} episodes of {NUM_STEPS} steps")
    print(f"sampled tokens: {ours['num_sampled']}, TRL's: {theirs['num_sampled']}")
    figures = []
    for part, key, least in (
        ("rollout", "rollout_s", ROLLOUT),
        ("whole iteration", "whole_s", WHOLE),
    ):
        ratio = median(b[key] / a[key] for a, b in pairs)
        name = f"{part}, TRL's GRPO with `environment_factory` over ours"
        figures.append(Figure(name, ratio, at_least=least))
    return figures


def write_model(folder: Path) -> None:
    """Write the model and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(str(embedded_path("model")))
    texts = ["<|im_start|>", START, *CALL]
    tokenizer.add_tokens(
        [AddedToken(text, normalized=False, special=text.startswith("<|im")) for text in texts]
    )
    tokenizer.eos_token = CALL[-1]
    tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    model = random_llama(
        hidden=96,
        layers=3,
        vocabulary=len(tokenizer),
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    chain = tokenizer.convert_tokens_to_ids([START, *CALL])
    with torch.no_grad():
        embedding = model.model.embed_tokens.weight.normal_()
        model.lm_head.weight.zero_()
        for before, behind in pairwise(chain):
            model.lm_head.weight[behind] = 5.0 * embedding[before] / embedding[before].norm()
    model.save_pretrained(folder)


def our_iteration(folder: Path) -> Any:
    """Make a function that plays and learns once and returns its CPU seconds."""
    template = ChatTemplate(AutoTokenizer.from_pretrained(str(folder)))
    policy = ActorCritic.load(str(folder))
    size = NUM_QUESTIONS * GROUP_SIZE
    config = TrainConfig(
        algorithm_name="GRPO",
        episodes_per_update=size,
        group_size=GROUP_SIZE,
        num_mini_batch=1,
        ppo_epoch=1,
        lr=LR,
        entropy_coef=0.0,
        target_kl=None,
        max_microbatch_tokens=2**16,
    )
    optimisers, envs = make_optimisers(policy, config), ThreadEnvPool(AdderEnv, size)
    ids = [
        f"{question}.{member}" for question in range(NUM_QUESTIONS) for member in range(GROUP_SIZE)
    ]

    def iteration() -> dict[str, float]:
        started = time.process_time()
        engine = GenerationEngine(
            policy.model, template.stop_ids, max_new_tokens=64, decode=template.decode
        )
        records = collect(envs, engine, template, ids, max_episode_tokens=2048)
        rollout_s = time.process_time() - started
        update(policy, optimisers, records, config, torch.Generator().manual_seed(0))
        whole_s = time.process_time() - started
        return {
            "rollout_s": rollout_s,
            "whole_s": whole_s,
            "num_sampled": engine.num_sampled_tokens,
        }

    return iteration
