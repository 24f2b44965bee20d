"""Makes docs/categories.md: `python docs/category_cards.py`.

Every episode on the page is played and judged as it is printed; `canaries.json` holds the scores
of policies that understand nothing, as `--canaries DATA_DIR` measured them.
"""

# ruff: noqa: E501 - paragraphs of a page

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from card_tasks import CARDS, FURTHER_ERRORS, Card

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Verdict
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.tool_text.env import JOBS

DOCS = Path(__file__).parent
PAGE, SCORES = DOCS / "categories.md", DOCS / "canaries.json"
LIMIT = 50  # tasks of an official category that the canaries play
WIDTH = 96  # of a line in a block
CUT = 300  # characters of a message

HEAD = """# Categories

One card a category: an example episode, what passes, and the errors that can come. Each episode was played by
`docs/category_cards.py`, and each verdict is what the environment returned. An `error_type` is BFCL's word. The first card,
played again:

```python
from fctncalling import FunctionCallingEnv, embedded_path

env = FunctionCallingEnv(dataset_path=embedded_path("held_out"))
env.reset(options={"task_id": "simple_python_90000"})
*_, info = env.step("[add_item(item='salt', list='picnic')]")
assert info["verdict"].valid
```
"""

CANARIES = f"""
## Canaries

Success rates, in %, of policies that understand nothing: `noop` says nothing, `echo` repeats the user, `first` calls the first
function once a turn, `always` in every message, `blind` plays the ground truth as far as the newest user message tells it;
`oracle` plays the ground truth. The first {LIMIT} official tasks of a category (all, where there are fewer) by BFCL's verdict; a
second line follows where the strict one differs. What a canary solves is no evidence of understanding. `fctncalling canaries
--dataset_path FILE` measures them on any file.

| category | noop, echo, first, always | blind | oracle |
|---|---|---|---|
"""

ERRORS = """
## Further error types

| error | when it comes |
|---|---|
"""

TAIL = """
## Strict verdicts

BFCL forgives calls in a turn that needs none, a text that mentions the answer among others, any call where some call is due.
`strict=True` of the environment and the strict columns of `score` judge these too (`strict:...`). The official verdict never
changes.

```
fctncalling import-bfcl
fctncalling run --agent oracle --limit 2 --output played.jsonl
fctncalling score --input played.jsonl --strict
```
"""


def page() -> str:
    """Return the page, every episode played anew."""
    scores = json.loads(SCORES.read_text(encoding="utf-8"))
    cards = "".join("\n".join(_card(card)) + "\n" for card in CARDS)
    errors = "".join(f"| `{name}` | {when} |\n" for name, when in FURTHER_ERRORS.items())
    rates = "".join(f"{line}\n" for card in CARDS for line in _canaries(card.canaries, scores))
    return f"{HEAD}{cards}{ERRORS}{errors}{CANARIES}{rates}{TAIL}"


def _card(card: Card) -> Iterator[str]:
    yield f"\n## {card.title}\n"
    yield _filled(card.what)
    yield _filled(f"**Passes:** {card.passes}")
    lines, verdict = play(card, card.right)
    assert verdict.valid, (card.title, verdict)
    if card.shown:
        yield "```text\n" + "\n".join([*lines, f"verdict    valid, score {verdict.score:g}"])
        yield "```\n"
    fails = []
    for words, actions in card.wrong:
        verdict = play(card, actions)[1]
        assert not verdict.valid, (card.title, words)
        fails.append(f"{words} (`{verdict.error_type}`)")
    yield _filled(f"**Fails:** {', '.join(fails)}.").rstrip()


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False) + "\n"


def play(card: Card, actions: Sequence[str]) -> tuple[list[str], Verdict]:
    """Play an episode of a card; return its conversation, a line a message, and the verdict."""
    task: Any = card.task
    is_job = isinstance(task, str)
    env: Any = JOBS[task]() if is_job else FunctionCallingEnv(tasks=[task])
    _, info = env.reset(seed=1, options={"task_id": "train_1" if is_job else task.id})
    lines = [] if is_job else _wrapped("offered", ", ".join(_names(info)))
    lines += _lines(info["messages"])
    steps = []
    for action in actions:
        lines += _wrapped("assistant", action)
        observation, reward, terminated, truncated, info = env.step(action)
        steps.append((reward, info))
        told = info["messages"] if not is_job else []
        lines += _lines(told) if not is_job or terminated else _wrapped("result", observation)
        if terminated or truncated:
            break
    verdict = info.get("verdict")
    assert terminated, (card.title, actions)
    assert verdict is not None, (card.title, actions)
    return lines, verdict


def _names(info: Any) -> list[str]:
    return [tool["function"]["name"] for tool in info["tools"]]


def _lines(messages: Sequence[Any]) -> list[str]:
    """Return messages as lines, without the system's and with functions that are new named."""
    lines: list[str] = []
    for message in messages:
        if message["role"] == "system":
            continue
        if message.get("tools"):
            names = ", ".join(tool["function"]["name"] for tool in message["tools"])
            lines += _wrapped("offered", f"{names} (now)")
        if message.get("content"):
            lines += _wrapped(message["role"], str(message["content"]))
    return lines


def _wrapped(who: str, text: str) -> list[str]:
    """Return a message as lines of a block, long ones cut."""
    text = text if len(text) <= CUT else f"{text[:CUT]} ..."
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH) or [""]]
    return [
        f"{who if number == 0 else '':10} {line}".rstrip()
        for number, line in enumerate(lines or ["(nothing)"])
    ]


def _canaries(names: Sequence[str], scores: dict[str, Any]) -> Iterator[str]:
    """Yield the rows of a card's categories that were measured."""
    for name in filter(scores.__contains__, names):
        found = scores[name]
        for label, rates in (("", found["success"]), (", strict", found["strict"])):
            if label and rates == found["success"]:
                continue
            *dull, blind, oracle = (f"{100 * rate:.0f}" for rate in rates.values())
            first = ", ".join(dull) if any(rate != "0" for rate in dull) else "0"
            yield f"| {name}{label} | {first} | {blind} | {oracle} |"


def measured(data_dir: Path) -> dict[str, Any]:
    """Return the canaries' scores on the official files of a folder."""
    from fctncalling.lab.canaries import canary_policies, limit_per_category, play_canaries

    scores = {}
    for name in dict.fromkeys(name for card in CARDS for name in card.canaries):
        tasks = load_tasks(data_dir / f"BFCL_v4_{name}.json")
        played = limit_per_category(tasks, LIMIT)
        rates, strict, _ = play_canaries(played, canary_policies(tasks, 0))
        scores[name] = {"tasks": len(played), "success": rates[name], "strict": strict[name]}
    return scores


def main() -> None:
    """Write the page; with --canaries, measure the canaries first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--canaries", type=Path, metavar="DATA_DIR")
    data_dir = parser.parse_args().canaries
    if data_dir:
        SCORES.write_text(json.dumps(measured(data_dir), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
