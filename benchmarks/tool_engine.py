"""Cost of tools in mid-generation: generations per second with and without them.

`python benchmarks/tool_engine.py --model FOLDER --num_batches 3 --num_tool_executors 32` lets a
model (default: the embedded one of --env_name python_math) answer made problems with <PYTHON>
blocks, which the confined executor runs. Two ways take turns: with tools, and with a tool that
answers at once, so that both write alike. Without a model that calls tools the rates are those of
plain generation.

`--vs trl --peer_python PYTHON` compares with TRL 0.11.4's TextEnvironment instead, which runs in an
environment of its own (`pip install trl==0.11.4 transformers==4.45.2`): the same model, questions,
batch, calculator and sampling. Rounds of the two take turns in one run, and the ratio is the median
of theirs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from fctncalling import TextEnvironment, TextHistory, embedded_path
from fctncalling.envs.tool_text.math_tasks import CalculatorTasks, GeneratedTasks, MathTasks
from fctncalling.envs.tools.box.calculator import calculate
from fctncalling.envs.tools.box.callables import as_tool
from fctncalling.envs.tools.python_executor import PythonExecutor

PEER = Path(__file__).parent / "peers/tool_engine_trl.py"
SNIPPET = "print(sum(n % 3 == 0 for n in range(100)))"


class Round(NamedTuple):
    """Batch of episodes."""

    seconds: float
    cpu_seconds: float  # of the process, which neighbours on the machine hardly change
    episodes: int
    calls: int  # that were answered
    tokens: int  # that the policy wrote
    waited: float = 0.0  # seconds in which nothing was generated, since tools ran


class Clocked(TextEnvironment):
    """Tool wrapper that measures how long generation waits for tools."""

    waited = 0.0

    def _answer_calls(self, histories: Sequence[TextHistory]) -> None:
        started = time.perf_counter()
        super()._answer_calls(histories)
        self.waited += time.perf_counter() - started


def main() -> None:
    """Print the selected table."""
    options = parsed()
    torch.set_num_threads(1)
    if options.vs == "trl":
        against_trl(options)
    else:
        with_and_without(options)


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="folder of a causal language model")
    parser.add_argument(
        "--num_batches", type=int, default=3, help="rounds (default 3; --vs trl wants more)"
    )
    parser.add_argument("--batch_size", type=int, default=64, help="episodes side by side")
    parser.add_argument("--num_tool_executors", type=int, default=32, help="snippets in flight")
    parser.add_argument("--max_new_tokens", type=int, default=64, help="between two calls")
    parser.add_argument("--vs", choices=("trl",))
    parser.add_argument(
        "--peer_python", default="python", help="interpreter of the environment with TRL 0.11.4"
    )
    parser.add_argument(
        "--peer_batch_size",
        type=int,
        default=16,
        help="rows of its generation (default 16, its own)",
    )
    return parser.parse_args()


def with_and_without(options: argparse.Namespace) -> None:
    """Print the cost of executing code in a batch, and of the executor alone."""
    model, tokenizer = loaded(options.model or embedded_path("python_math"))
    texts = questions(MathTasks(), options.num_batches * options.batch_size)
    with PythonExecutor(num_executors=options.num_tool_executors) as executor:
        ways = {"with tools": [executor], "with a tool that answers at once": [instant()]}
        keywords = {"handler": "python_block", "max_tool_response": 1000}
        envs = {
            name: environment(model, tokenizer, tools, options, **keywords)
            for name, tools in ways.items()
        }
        rounds: dict[str, list[Round]] = {name: [] for name in ways}
        executor.run(SNIPPET)
        for number in range(options.num_batches):
            batch = texts[number * options.batch_size : (number + 1) * options.batch_size]
            for name, env in envs.items():
                rounds[name].append(played(env, batch, seed=number))
        for name, played_rounds in rounds.items():
            print(described(name, played_rounds))
        latency = sorted(executor.run(SNIPPET).wall_s for _ in range(100))
        started = time.perf_counter()
        executor.map([SNIPPET] * 200)
        rate = 200 / (time.perf_counter() - started)
    print(
        f"executor alone: p50 {1000 * latency[49]:.1f} ms, p95 {1000 * latency[94]:.1f} ms; "
        f"{rate:.0f} snippets/s with {options.num_tool_executors} in flight"
    )


def against_trl(options: argparse.Namespace) -> None:
    """Print the episodes per second of both, by rounds, and the median ratio."""
    folder = options.model or embedded_path("calculator")
    model, tokenizer = loaded(folder)
    texts = questions(CalculatorTasks(), (options.num_batches + 1) * options.batch_size)
    env = environment(model, tokenizer, {"calculator": as_tool(calculate, timeout_s=None)}, options)
    command = [
        options.peer_python,
        str(PEER),
        str(folder),
        str(options.max_new_tokens),
        str(options.peer_batch_size),
    ]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert peer.stdin is not None
    assert peer.stdout is not None
    ratios: list[tuple[float, float]] = []
    for number in range(options.num_batches + 1):  # the first round warms up
        batch = texts[number * options.batch_size : (number + 1) * options.batch_size]
        ours = played(env, batch, seed=number)
        peer.stdin.write(json.dumps({"queries": batch, "seed": number}) + "\n")
        peer.stdin.flush()
        theirs = Round(**json.loads(peer.stdout.readline()))
        ratio = (theirs.seconds / ours.seconds, theirs.cpu_seconds / ours.cpu_seconds)
        print(
            described("ours", [ours]),
            described("TRL 0.11.4", [theirs]),
            f"x{ratio[1]:.2f}",
            sep="; ",
            flush=True,
        )
        ratios += [ratio] if number else []
    peer.stdin.close()
    peer.wait()
    for name, ratio in zip(("wall", "CPU"), zip(*ratios, strict=True), strict=True):
        print(
            f"episodes a {name} second, median ratio of {len(ratio)} interleaved rounds of "
            f"{options.batch_size}: x{statistics.median(ratio):.2f}, from x{min(ratio):.2f} to "
            f"x{max(ratio):.2f}"
        )


def loaded(folder: str | Path) -> tuple[Any, Any]:
    """Load model and tokenizer from a folder."""
    return AutoModelForCausalLM.from_pretrained(str(folder)).eval(), AutoTokenizer.from_pretrained(
        str(folder)
    )


def questions(tasks: GeneratedTasks, count: int) -> list[str]:
    """Return generated questions in the embedded models' chat template."""
    named = [tasks.by_id(f"train_{number}").prompt for number in range(count)]
    return [f"<|user|>{prompt}<|end|><|assistant|>" for prompt in named]


def instant() -> Any:
    """Make a tool with the executor's name that answers without executing anything."""

    def python_executor(code: str) -> str:
        """Return a number."""
        return str(len(code))

    return as_tool(python_executor, timeout_s=None)


def environment(
    model: Any, tokenizer: Any, tools: Any, options: argparse.Namespace, **keywords: Any
) -> Clocked:
    """Make an environment that samples, without a reward."""
    sampling = {"do_sample": True, "max_new_tokens": options.max_new_tokens}
    return Clocked(
        model,
        tokenizer,
        tools,
        lambda responses: [0.0] * len(responses),
        generation_kwargs=sampling,
        batch_size=options.batch_size,
        **keywords,
    )


def played(env: Clocked, batch: list[str], *, seed: int) -> Round:
    """Time one batch; return seconds, calls and tokens as a Round."""
    torch.manual_seed(seed)
    env.waited, started, cpu = 0.0, time.perf_counter(), time.process_time()
    *_, masks, _, histories = env.run(batch)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    calls = sum(history.num_answered_calls for history in histories)
    tokens = sum(int(mask.sum()) for mask in masks)
    return Round(seconds, cpu_seconds, len(batch), calls, tokens, env.waited)


def described(name: str, rounds: list[Round]) -> str:
    """Summarise some rounds in a line."""
    total = Round(*map(sum, zip(*rounds, strict=True)))
    waited = (
        f", {total.waited / total.seconds:.0%} of the time waiting for tools"
        if total.waited
        else ""
    )
    return (
        f"{name}: {total.episodes / total.seconds:.1f} generations/s "
        f"({total.episodes / total.cpu_seconds:.1f} a CPU second), "
        f"{total.tokens / total.seconds:.0f} tokens/s, {total.calls / total.episodes:.2f} calls "
        f"each{waited}"
    )


if __name__ == "__main__":
    main()
