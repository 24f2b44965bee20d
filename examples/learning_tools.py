"""TRL's "Learning Tools" page as a script: a calculator, a wiki, a Python interpreter, and learning
to use them.

`python examples/learning_tools.py --part calculator` starts from the embedded model that has begun
to learn this job, as `--part python` does; the reward rises within the default steps. No embedded
model can search, so `--part wiki` plays a scripted policy and learns nothing. `--model FOLDER`
takes any causal language model for every part; it sees examples in its prompt. The wiki is a small
local corpus (a file of your own: FCTNCALLING_SEARCH_CORPUS), the interpreter runs confined.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

from fctncalling import TextEnvironment, TextHistory, embedded_path
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy import ActorCritic
from fctncalling.envs.tool_text.tasks import MathTasks
from fctncalling.lab.text_environment.attributes import load_tool
from fctncalling.lab.text_environment.text_trainer import TextTrainer as PPOTrainer

CALCULATOR_PROMPT = """\
What is 8.5 - 3?

<request><calculator>8.5 - 3<call>5.5<response>

Result=5.5<submit>

What is 6 * 7?

<request><calculator>6 * 7<call>42.0<response>

Result=42.0<submit>

"""

WIKI_PROMPT = """\
Answer the following question:

Q: Where was Marie Curie born?
A2: <request><Wiki>Marie Curie<call>Marie Curie was born in Warsaw in 1867.<response>
Result=Warsaw<submit>

Q: """

PYTHON_PROMPT = """\
Example of using Python to solve a question.

Q: Tom has 40 marbles and gives three friends 6 each. How many are left?

<PYTHON>
print(40 - 3 * 6)
</PYTHON>
<PYTHON-OUTPUT>
22
</PYTHON-OUTPUT>
Result=22

Q: """


def exact_match_reward(responses: list[str], answers: list[str]) -> list[float]:
    """Return 1 for each response that ends with its answer as `Result=number`."""
    rewards = []
    for response, answer in zip(responses, answers, strict=True):
        numbers = re.findall(r"Result\s*=\s*(-?\d+(?:\.\d+)?)\s*(?:<submit>)?$", response)
        rewards.append(float(bool(numbers) and abs(float(numbers[0]) - float(answer)) < 0.01))
    return rewards


def contains_reward(responses: list[str], answers: list[str]) -> list[float]:
    """Return 1 for each response that contains its answer."""
    return [
        float(answer.lower() in response.lower())
        for response, answer in zip(responses, answers, strict=True)
    ]


def calculator_tasks(count: int) -> tuple[list[str], list[str]]:
    """Return sums and their results."""
    pairs = [
        (random.randint(0, 49), random.choice("+-*"), random.randint(0, 49)) for _ in range(count)
    ]
    results = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
    return [f"What is {a} {sign} {b}?" for a, sign, b in pairs], [
        str(results[sign](a, b)) for a, sign, b in pairs
    ]


def wiki_tasks(count: int) -> tuple[list[str], list[str]]:
    """Return questions that the local corpus answers."""
    known = [
        ("Which river carries the most water?", "Amazon"),
        ("Which mountain is highest?", "Everest"),
    ]
    chosen = [random.choice(known) for _ in range(count)]
    return [question for question, _ in chosen], [answer for _, answer in chosen]


def python_tasks(count: int) -> tuple[list[str], list[str]]:
    """Return generated problems."""
    tasks = [MathTasks().by_id(f"train_{random.randint(0, 10**6)}") for _ in range(count)]
    return [task.prompt for task in tasks], [task.answer for task in tasks]


class ScriptedSearch(TextEnvironment):
    """Scripted policy for the wiki: searches for the question, answers from the page."""

    def generate(self, histories: Sequence[TextHistory]) -> list[TextHistory]:
        """Generate the next part of every unfinished episode."""
        for history in histories:
            if not history.completed:
                question, answered = history.last_text_segment, history.num_answered_calls
                text = f"<request><Wiki>{question}<call>"
                if answered:
                    text = f"Result={question.partition(':')[0]}<submit>"
                history.append_segment(text, self.template.continuation(text), system=False)
        return list(histories)


class Part(NamedTuple):
    """Settings of one part of the page."""

    make_tools: Callable[[], dict[str, Any]]
    prompt: str  # with examples, for a model that has learned nothing of this
    reward_fn: Callable[..., Any]
    tasks_of: Callable[[int], tuple[list[str], list[str]]]
    longest: int  # characters of a tool's response that are shown
    model: str  # the embedded model
    handler: str = "request_call"


PARTS = {
    "calculator": Part(
        lambda: {"calculator": load_tool("ybelkada/simple-calculator")},
        CALCULATOR_PROMPT,
        exact_match_reward,
        calculator_tasks,
        100,
        "calculator",
    ),
    "wiki": Part(
        lambda: {"Wiki": load_tool("vwxyzjn/pyserini-wikipedia-kilt-doc")},
        WIKI_PROMPT,
        contains_reward,
        wiki_tasks,
        400,
        "model",
    ),
    "python": Part(
        lambda: {"python_executor": load_tool("lvwerra/python-interpreter")},
        PYTHON_PROMPT,
        exact_match_reward,
        python_tasks,
        400,
        "python_math",
        "python_block",
    ),
}


def main(arguments: list[str] | None = None) -> None:
    """Run episodes of a part and learn from them, several times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="calculator")
    parser.add_argument("--model", help="folder of a causal language model; else an embedded one")
    parser.add_argument("--algorithm_name", default="TPPO", help="TPPO, POAD, NTPO, APPO or GRPO")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-4, help="1e-5 is plenty for a large model")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    part = PARTS[options.part]
    folder = options.model or str(embedded_path(part.model))
    model, tokenizer = ActorCritic.load(folder), AutoTokenizer.from_pretrained(folder)
    scripted = options.part == "wiki" and not options.model
    chats = not options.model and not scripted  # what the embedded models were trained on
    env = (ScriptedSearch if scripted else TextEnvironment)(
        model,
        tokenizer,
        part.make_tools(),
        part.reward_fn,
        part.prompt if options.model else "",
        max_tool_response=part.longest,
        generation_kwargs={"do_sample": True, "max_new_tokens": 48},
        handler=part.handler,
    )
    config = TrainConfig(algorithm_name=options.algorithm_name, lr=options.lr, kl_coef=0.0)
    ppo_trainer = PPOTrainer(config, model, tokenizer=tokenizer)
    for step in range(1 if scripted else options.steps):
        tasks, answers = part.tasks_of(options.batch_size)
        if chats:
            tasks = [f"<|user|>{task}<|end|><|assistant|>" for task in tasks]
        queries, responses, masks, rewards, histories = env.run(tasks, answers=answers)
        if scripted:
            print(f"scripted policy: reward {sum(rewards) / len(rewards):.2f}, nothing is learned")
        else:
            truncated = [history.truncated for history in histories]
            stats = ppo_trainer.step(queries, responses, rewards, masks, truncated=truncated)
            kl = stats["losses/approx_kl"]
            print(f"step {step}: reward {stats['env/reward_mean']:.2f}, kl {kl:.5f}", flush=True)
    histories[0].show_text()
    histories[0].show_tokens(tokenizer)
    env.close()


if __name__ == "__main__":
    main()
