"""TRL's side of `tool_engine.py --vs trl`: TRL 0.11.4's TextEnvironment over JSON lines.

Runs in an environment of its own and imports nothing of this project, so that the calculator it
calls is a plain one.
"""

import json
import os
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import AutoModelForCausalLMWithValueHead, TextEnvironment

SIGNS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


def calculator(query):
    """Return the result of `number sign number`."""
    left, sign, right = query.split()
    return str(round(float(SIGNS[sign](float(left), float(right))), 2))


def main(folder, max_new_tokens, batch_size):
    """Answer rounds until the input ends."""
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr
    model = AutoModelForCausalLMWithValueHead(AutoModelForCausalLM.from_pretrained(folder).eval())
    # An end token that never comes: TRL ends an episode whose query holds it, and the chat form
    # does.
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=os.path.join(folder, "tokenizer.json"),
        pad_token="<|pad|>",
        eos_token="<|tool|>",
    )
    keywords = {
        "do_sample": True,
        "top_k": 0,
        "top_p": 1.0,
        "max_new_tokens": max_new_tokens,
        "pad_token_id": 0,
    }
    env = TextEnvironment(
        model,
        tokenizer,
        {"calculator": calculator},
        lambda texts: [0.0] * len(texts),
        "",
        generation_kwargs=keywords,
    )
    generate = env._generate_batched
    env._generate_batched = lambda tensors: generate(tensors, batch_size=batch_size)
    for line in sys.stdin:
        request = json.loads(line)
        torch.manual_seed(request["seed"])
        started, cpu = time.perf_counter(), time.process_time()
        with torch.no_grad():
            _, _, masks, _, histories = env.run(request["queries"])
        reply = {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu,
            "episodes": len(histories),
            "calls": sum(sum(history.system_spans[1:]) for history in histories),
            "tokens": sum(int(mask.sum()) for mask in masks),
        }
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
