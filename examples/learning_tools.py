"""TRL's "Learning Tools" page as a script: a calculator, a wiki, a Python interpreter, and learning to use them.

`python examples/learning_tools.py --part calculator --steps 2`; `--model FOLDER` takes any causal language model. The
wiki is a small local corpus (a file of your own: FCTNCALLING_SEARCH_CORPUS), the interpreter runs confined.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable
from typing import Any

from transformers import AutoTokenizer

from fctncalling import TextEnvironment, embedded_path
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.policy import ActorCritic
from fctncalling.envs.tool_text_math import MathTasks
from fctncalling.text_tools import load_tool
from fctncalling.text_trainer import TextTrainer as PPOTrainer

CALCULATOR_PROMPT = """\
What is 8.5-3?

<request><SimpleCalculatorTool>8.5-3<call>5.5<response>

Result=5.5<submit>

What is 6*7?

<request><SimpleCalculatorTool>6*7<call>42.0<response>

Result=42.0<submit>"""

WIKI_PROMPT = """\
Answer the following question:

Q: Where was Marie Curie born?
A2: <request><Wiki>Marie Curie<call>Marie Curie was born in Warsaw in 1867.<response>
Result=Warsaw<submit>

Q: """

PYTHON_PROMPT = """\
Example of using Python to solve a question.

Q: Tom has 40 marbles and gives three friends 6 each. How many are left?

<request><PythonInterpreter>
def solution():
    given = 3 * 6
    return 40 - given
print(solution())
<call>22<response>

Result = 22 <submit>

Q: """


def exact_match_reward(responses: list[str], answers: list[str]) -> list[float]:
    """Return 1 for each response that submits its answer as `Result=number<submit>`."""
    rewards = []
    for response, answer in zip(responses, answers, strict=True):
        numbers = re.findall(r"Result\s*=\s*(-?\d+(?:\.\d+)?)\s*<submit>", response)
        rewards.append(float(bool(numbers) and abs(float(numbers[0]) - float(answer)) < 0.01))
    return rewards


def contains_reward(responses: list[str], answers: list[str]) -> list[float]:
    """Return 1 for each response that holds its answer."""
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
    return [f"\n\nWhat is {a}{sign}{b}?" for a, sign, b in pairs], [
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
    """Return made problems."""
    tasks = [MathTasks().named(f"train_{random.randint(0, 10**6)}") for _ in range(count)]
    return [f"{task.prompt}\n" for task in tasks], [task.answer for task in tasks]


def parts() -> dict[
    str, tuple[Callable[[], dict[str, Any]], str, Callable[..., Any], Callable[[int], Any], int]
]:
    """Return part -> (its tools, prompt, reward, tasks, longest tool response in characters)."""

    def calculator() -> dict[str, Any]:
        tool = load_tool("ybelkada/simple-calculator")
        tool_fn = lambda text: str(round(float(tool(text)), 2))  # noqa: E731 - as on the page
        return {"SimpleCalculatorTool": tool_fn}

    def wiki() -> dict[str, Any]:
        return {"Wiki": load_tool("vwxyzjn/pyserini-wikipedia-kilt-doc")}

    def python() -> dict[str, Any]:
        return {"PythonInterpreter": load_tool("lvwerra/python-interpreter")}

    return {
        "calculator": (calculator, CALCULATOR_PROMPT, exact_match_reward, calculator_tasks, 100),
        "wiki": (wiki, WIKI_PROMPT, contains_reward, wiki_tasks, 400),
        "python": (python, PYTHON_PROMPT, exact_match_reward, python_tasks, 400),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run episodes of a part and learn from them, a few times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=parts(), default="calculator")
    parser.add_argument(
        "--model", default=str(embedded_path("model")), help="folder of a causal language model"
    )
    parser.add_argument("--algorithm_name", default="TPPO", help="TPPO, POAD, NTPO, APPO or GRPO")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=8)
    options = parser.parse_args(arguments)
    tools, prompt, reward_fn, tasks_of, longest = parts()[options.part]
    model = ActorCritic.load(options.model)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    generation_kwargs = {"min_length": -1, "top_k": 0.0, "top_p": 1.0, "do_sample": True, "eos_token_id": -1,
                         "max_new_tokens": 32}  # fmt: skip
    env = TextEnvironment(
        model,
        tokenizer,
        tools(),
        reward_fn,
        prompt,
        max_tool_response=longest,
        generation_kwargs=generation_kwargs,
    )
    config = TrainConfig(algorithm_name=options.algorithm_name, lr=1e-5, ppo_epoch=4)
    ppo_trainer = PPOTrainer(config, model, tokenizer=tokenizer)
    for step in range(options.steps):
        tasks, answers = tasks_of(options.batch_size)
        queries, responses, masks, rewards, histories = env.run(tasks, answers=answers)
        train_stats = ppo_trainer.step(
            queries,
            responses,
            rewards,
            masks,
            truncated=[history.truncated for history in histories],
        )
        print(
            f"step {step}: reward {train_stats['env/reward_mean']:.2f}, kl {train_stats['losses/approx_kl']:.5f}"
        )
    histories[0].show_text()
    histories[0].show_tokens(tokenizer)
    env.close()


if __name__ == "__main__":
    main()
