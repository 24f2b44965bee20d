"""Write a results page from the answers of `fctncalling run`.

    python recipes/results_page.py --answers base=base.jsonl sft=sft.jsonl tppo=tppo.jsonl \
        --dataset_path test.jsonl --output results.md

Rows are models, in the order given; columns are categories: the official verdicts' share with its
95 % interval (Wilson), and how many are valid strictly, with nothing forgiven. Each model is
compared with the one before it on the tasks that both answered: gained, lost, and the exact
two-sided sign test (McNemar). Six tasks of the first and the last model stand side by side, drawn
by a seed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Task
from fctncalling.evaluation.pass_at_k import sign_test, wilson_interval

VERDICTS = ("valid", "strict_valid")
Answers = dict[str, dict[str, Any]]  # task id -> a line of `run`
JOINED = (("simple_python", "multiple"), ("live_simple", "live_multiple"))  # told together, too
NUM_SHOWN = {"gained": 3, "lost": 1, "neither": 1, "both": 1}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", nargs="+", required=True, metavar="NAME=FILE")
    parser.add_argument("--dataset_path", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--title", default="Results")
    parser.add_argument("--seed", type=int, default=0, help="of the tasks that are shown")
    options = parser.parse_args(arguments)
    models = dict[str, Answers]()
    for pair in options.answers:
        name, _, path = pair.partition("=")
        try:
            models[name] = read_answers(Path(path))
        except (OSError, KeyError, ValueError) as error:
            print(f"error: --answers {pair}: no answers of `run`: {error}", file=sys.stderr)
            return 2
    tasks = [task for path in options.dataset_path for task in load_tasks(path)]
    requests = {task.id: request_of(task) for task in tasks}
    first, last = next(iter(models.values())), list(models.values())[-1]
    parts = [f"# {options.title}", results_table(models), *paired_lines(models)]
    parts += side_by_side(first, last, requests, random.Random(options.seed))
    options.output.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(parts[1])
    return 0


def read_answers(path: Path) -> Answers:
    """Return the valid episodes of a file, by task id."""
    lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return {line["id"]: line for line in lines if not line["invalid"]}


def request_of(task: Task) -> str:
    """Return the user's words, all turns in one line."""
    return " ".join(it["content"] for turn in task.question for it in turn if it["role"] == "user")


def groups_of(models: Mapping[str, Answers]) -> dict[str, list[str]]:
    """Return the table's columns: categories, and the pairs of `JOINED`."""
    names = list(dict.fromkeys(it["category"] for ans in models.values() for it in ans.values()))
    groups = {name: [name] for name in names}
    for pair in JOINED:
        if set(pair) <= set(names):
            groups[" + ".join(pair)] = list(pair)
    return groups


def results_table(models: Mapping[str, Answers]) -> str:
    """Return the table of shares of valid answers, in Markdown."""
    groups = groups_of(models)
    rows = [["model", *groups], ["---"] * (1 + len(groups))]
    for name, answers in models.items():
        row = [name]
        for categories in groups.values():
            lines = [it for it in answers.values() if it["category"] in categories]
            valid, strict = (sum(map(bool, map(itemgetter(key), lines))) for key in VERDICTS)
            row.append(share_text(valid, strict, len(lines)))
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def share_text(count: int, strict: int, total: int) -> str:
    """Return both shares: "43.8 % (36.1 to 51.7), 66 of 150; strict 60": official with interval."""
    if not total:
        return "-"
    low, high = wilson_interval(count / total, total)
    share = f"{100 * count / total:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
    return f"{share}, {count} of {total}; strict {strict}"


def paired_lines(models: Mapping[str, Answers]) -> list[str]:
    """Return a line for each model but the first: its paired comparison with the one before."""
    lines, names = list[str](), list(models)
    for before, after in pairwise(names):
        for group, categories in groups_of(models).items():
            outcomes = outcomes_of(models[before], models[after], categories)
            gained, lost = len(outcomes["gained"]), len(outcomes["lost"])
            total = sum(map(len, outcomes.values()))
            if total:
                points = 100 * (gained - lost) / total
                lines.append(
                    f"- {before} -> {after}, {group}: {gained} gained, {lost} lost of {total}: "
                    f"{points:+.1f} points, p = {sign_test(gained, lost):.3g}"
                )
    return ["\n".join(lines)] if lines else []


def outcomes_of(before: Answers, after: Answers, categories: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the tasks that both answered, by outcome."""
    names = {(0, 1): "gained", (1, 0): "lost", (0, 0): "neither", (1, 1): "both"}
    outcomes: dict[str, list[str]] = {name: [] for name in names.values()}
    for task_id, line in before.items():
        if task_id in after and line["category"] in categories:
            pair = (int(bool(line["valid"])), int(bool(after[task_id]["valid"])))
            outcomes[names[pair]].append(task_id)
    return outcomes


def side_by_side(
    before: Answers, after: Answers, requests: Mapping[str, str], drawing: random.Random
) -> list[str]:
    """Return sections on some tasks: request, both answers and accepted answer."""
    categories = sorted({line["category"] for line in before.values()})
    outcomes = outcomes_of(before, after, categories)
    sections = ["## Episodes, first and last model"]
    for outcome, count in NUM_SHOWN.items():
        ids = sorted(outcomes[outcome])
        for task_id in drawing.sample(ids, min(count, len(ids))):
            shown = {"before": before[task_id], "after": after[task_id]}
            lines = [f"### {task_id} ({outcome})", f"> {requests[task_id]}"]
            for name, line in shown.items():
                verdict = "valid" if line["valid"] else line["error_type"]
                lines.append(f"{name}, {verdict}:\n\n```text\n{response_text(line)}\n```")
            truth = json.dumps(before[task_id].get("ground_truth"), ensure_ascii=False)
            sections.append("\n\n".join([*lines, f"accepted: `{truth}`"]))
    return sections


def response_text(line: Mapping[str, Any]) -> str:
    """Return the words of an episode, at most 600 characters."""
    text = "\n".join(str(step["text"]) for step in line["steps"])
    return text if len(text) <= 600 else text[:600] + " ..."


if __name__ == "__main__":
    sys.exit(main())
