"""TRL's "Text Environments" page as a script: tools, a prompt, a reward, an episode, one step of
learning.

`python examples/text_environment.py` plays with the embedded calculator model, which has learned to
call a calculator and still makes mistakes; `--model FOLDER` takes any causal language model, which
sees an example in its prompt. The import lines are ours. Names that the page spells in two ways are
spelled in one.
"""

from __future__ import annotations

import argparse

import torch
from transformers import AutoTokenizer

from fctncalling import TextEnvironment, embedded_path
from fctncalling.algorithms.policy import ActorCritic
from fctncalling.lab.text_environment.attributes import load_tool
from fctncalling.lab.text_environment.text_trainer import TextTrainer as PPOTrainer

PROMPT = """\
What is 20 - 4?
<request><calculator>20 - 4<call>16.0<response>
Result=16.0<submit>
"""


def add(text: str) -> str:
    """Add two whole numbers: a user's tool is a function from text to text."""
    left, right = text.split("+")
    return str(int(left) + int(right))


def reward_fn(result: str, answer: str) -> int:
    """Return 1 if the result is the answer."""
    return int(result.partition("=")[2].partition("<")[0].strip() == answer)


def main(arguments: list[str] | None = None) -> None:
    """Run episodes, print them, learn from them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="folder of a causal language model; else the embedded one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--html", help="file to write the first episode to")
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    folder = options.model or str(embedded_path("calculator"))
    model = ActorCritic.load(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    calc_tool = load_tool("ybelkada/simple-calculator")
    print(calc_tool("1/2"), add("1+1"))

    text_env = TextEnvironment(
        model=model,
        tokenizer=tokenizer,
        tools={"calculator": calc_tool, "add": add},
        reward_fn=reward_fn,
        prompt=PROMPT if options.model else "",
        max_turns=2,  # a call, and a second one where the first was wrong
        max_tool_response=100,
        generation_kwargs={"do_sample": "true", "max_new_tokens": 24},
    )
    questions = ["What is 8 - 5?", "What is 36 * 44?"]
    if not options.model:  # the embedded model was trained on chats
        questions = [f"<|user|>{question}<|end|><|assistant|>" for question in questions]
    queries, responses, masks, rewards, histories = text_env.run(
        questions, answers=["3.0", "1584.0"]
    )
    for history in histories:
        history.show_text()
    histories[0].show_tokens(tokenizer, show_legend=True)
    if options.html:
        with open(options.html, "w", encoding="utf-8") as file:
            file.write(histories[0].to_html(tokenizer))

    ppo_trainer = PPOTrainer(model=model, tokenizer=tokenizer)
    train_stats = ppo_trainer.step(
        queries, responses, rewards, masks, truncated=[history.truncated for history in histories]
    )
    print(
        {
            name: round(value, 4)
            for name, value in train_stats.items()
            if name.startswith(("env/", "losses/p"))
        }
    )
    text_env.close()


if __name__ == "__main__":
    main()
