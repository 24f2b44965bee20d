"""Play degenerate policies on a data set and show how often each succeeds, category by category.

noop says nothing, echo repeats the user, first_function and always_call call the first function
offered (once a turn, in every message), history_blind plays the ground truth as far as the newest
user message tells it, oracle plays all of it. Exit code 1 if the oracle fails: such a task
cannot be solved. Eight official tasks are known for it (four of simple_java, hence the oracle's 96
% there): the official checker rejects their own truth. They are named, and change no exit code.

example:
  fctncalling canaries data/bfcl/BFCL_v4_multi_turn_base.json --limit 50
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from fctncalling.checkers.clarify import missing_parameters
from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar
from fctncalling.cli.shared.output import align_rows
from fctncalling.cli.shared.parser import add_flag, add_input, add_switch
from fctncalling.cli.shared.task_finder import use_sibling_long_context_tables
from fctncalling.cli.shared.tool_flags import TaskTools, add_tool_arguments
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.categories import CLARIFY, UnsupportedCategory, category_kind
from fctncalling.data.types import Call, Task, Verdict
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.judging.strict import strict_verdict
from fctncalling.envs.user_tools import ToolsArgument
from fctncalling.evaluation.agents.agent import ScriptedPlayer
from fctncalling.evaluation.episode_log import play_episode
from fctncalling.evaluation.scripted_policies import (
    DONE,
    Policy,
    PolicyInput,
    noop,
    oracle,
    placeholder_call,
    question_about,
    render,
)
from fctncalling.lab.lint import unsolvable_official_fault

# category -> policy -> success rate; None where every episode was invalid
Rates = dict[str, dict[str, float | None]]
ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    tasks = "task file or folder; default: the embedded training set"
    add_input(parser, "--dataset_path", "PATH", tasks, required=False)
    add("--limit", int, "N", "play at most N tasks of each category")
    add("--seed", int, "N", "of history_blind's guesses; default: %(default)s", 0)
    add_tool_arguments(parser)
    add_switch(parser, "--json", "print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Play every canary on every task.

    Return 0, or 1 if the oracle failed; raises InputError for data that cannot be read.
    """
    played, report = canary_report(args)
    rates, strict = report["success"], report["success_strict"]
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        counts = Counter(task.category for task in played)
        print(rates_table(rates, counts))
        same = strict == rates
        print(f"\nstrictly, where nothing that BFCL forgives counts:{' the same' * same}")
        if not same:
            print(rates_table(strict, counts))
        for task_id, why in report["unsolved"].items():
            print(f"the oracle fails on {task_id}: {why}", file=sys.stderr)
        for task_id, why in report["official_faults"].items():
            print(f"{task_id}: a known fault of BFCL, which nobody solves: {why}", file=sys.stderr)
    return 1 if report["unsolved"] else 0


def canary_report(args: argparse.Namespace) -> tuple[list[Task], dict[str, Any]]:
    """Play every canary on the tasks of the arguments; return the tasks and the rates as JSON."""
    if args.limit is not None and args.limit < 1:
        raise InputError(f"--limit: got {args.limit}, expected at least 1")
    tools, path = TaskTools(args), args.dataset_path or embedded_path("train")
    use_sibling_long_context_tables(path)
    loaded = load_tasks(path, self_documented=tools.given)
    tasks = [tools.with_docs(task, path) for task in loaded]
    played = limit_per_category([task for task in tasks if _is_supported(task)], args.limit)
    if not played:
        raise InputError(
            f"{path}: none of its {len(tasks)} tasks has a category that can be judged"
        )
    tools.tell_isolation(played)
    classes = tools.classes_for(played, path)
    try:
        rates, strict, unsolved = play_canaries(played, canary_policies(tasks, args.seed), classes)
    except LookupError as error:
        raise InputError(str(error)) from None
    faults = {
        t.id: fault for t in played if t.id in unsolved and (fault := unsolvable_official_fault(t))
    }
    return played, {
        "tasks": len(played),
        "seed": args.seed,
        "success": rates,
        "success_strict": strict,
        "unsolved": {task_id: why for task_id, why in unsolved.items() if task_id not in faults},
        "official_faults": faults,
    }


def limit_per_category(tasks: Sequence[Task], limit: int | None) -> list[Task]:
    """Return the first `limit` tasks of each category, in their order."""
    counts: Counter[str] = Counter()
    chosen = []
    for task in tasks:
        counts[task.category] += 1
        if limit is None or counts[task.category] <= limit:
            chosen.append(task)
    return chosen


def play_canaries(
    tasks: Sequence[Task], canaries: dict[str, Policy], tools: ToolsArgument = None
) -> tuple[Rates, Rates, dict[str, str]]:
    """Return success rates by category and policy, official and strict, and the oracle's failures.

    A failure: task id -> reason.
    """
    languages = dict.fromkeys(task.language for task in tasks)
    envs = {
        language: FunctionCallingEnv(
            tasks=[task for task in tasks if task.language == language],
            handler=f"{language}_calls",
            tools=tools,
        )
        for language in languages
    }
    judged, valid, strict = (Counter[tuple[str, str]]() for _ in range(3))
    unsolved = {}
    for task in with_progress_bar(tasks, "playing canaries", "task", len(tasks)):
        for name, policy in canaries.items():
            verdict, is_strict, why = play_canary(envs[task.language], task, policy)
            for category in (task.category, ALL):
                judged[category, name] += verdict is not None
                valid[category, name] += verdict is not None and verdict.valid
                strict[category, name] += is_strict
            if name == "oracle" and (verdict is None or not verdict.valid):
                unsolved[task.id] = why

    def rates(right: Counter[tuple[str, str]]) -> Rates:
        return {
            category: {
                name: right[category, name] / count if (count := judged[category, name]) else None
                for name in canaries
            }
            for category in (*dict.fromkeys(task.category for task in tasks), ALL)
        }

    return rates(valid), rates(strict), unsolved


def play_canary(
    env: FunctionCallingEnv, task: Task, policy: Policy
) -> tuple[Verdict | None, bool, str]:
    """Return an episode's verdict, whether it is valid strictly too, and the reason if it is not.

    None if there is no verdict.
    """
    player = ScriptedPlayer(policy, task)
    played = play_episode(env, task.id, player)
    if player.error:
        return Verdict(False, 0.0, None, player.error), False, player.error
    verdict = played.episode.verdict
    if verdict is None:
        return None, False, played.reason or "the task has no ground truth"
    strict = verdict.valid and strict_verdict(task, played.episode.steps, verdict).valid
    return verdict, strict, f"{verdict.error_type}: {verdict.message}"


def rates_table(rates: Rates, counts: Counter[str]) -> str:
    """Return the rates in percent as a plain table."""
    rows = [["category", "tasks", *rates[ALL]]]
    for category, of_policy in rates.items():
        count = counts.total() if category == ALL else counts[category]
        cells = ("-" if rate is None else f"{100 * rate:.1f}" for rate in of_policy.values())
        rows.append([category, str(count), *cells])
    return align_rows(rows)


def _is_supported(task: Task) -> bool:
    # asked with one of three memories: BFCL_v4_memory_kv.json plays it
    if task.category == "memory":
        return False
    try:
        category_kind(task.category)
    except UnsupportedCategory:
        return False
    return True


_WORD = re.compile(r"\w+")


def echo(situation: PolicyInput) -> str:
    """Repeat the user."""
    return situation.user_text


def first_function(situation: PolicyInput) -> str:
    """Call the first function once a turn, required arguments filled by their type."""
    return always_call(situation) if situation.step_in_turn == 0 else DONE


def always_call(situation: PolicyInput) -> str:
    """Call the first offered function in every message."""
    if not situation.tools:
        return DONE
    return render(situation, [placeholder_call(situation.tools[0])])


def always_ask(situation: PolicyInput) -> str:
    """Ask one question, needed or not, then play the ground truth; a clarify task's canary."""
    missing = missing_parameters(situation.task)
    parameters = [name for doc in situation.task.functions for name in doc.parameters["properties"]]
    if situation.step_in_turn == 0:
        return question_about((*missing, *parameters)[0])
    return render(situation, oracle_calls(situation.task)[0])


def never_ask(situation: PolicyInput) -> str:
    """Play the ground truth at once, its missing values guessed right; a clarify task's canary."""
    return render(situation, oracle_calls(situation.task)[0])


class HistoryBlind:
    """Policy that plays the ground truth from the newest message alone, earlier values guessed.

    A value counts as told where its text occurs in the newest user message (a number: as a number
    of its own), in the enum or default of its parameter, or among the words of the instructions.
    What is not told is replaced by a value of the same type which the same parameter has somewhere
    in the data set.
    """

    def __init__(self, tasks: Iterable[Task], seed: int) -> None:
        self._seed = seed
        self._values: dict[tuple[str, str, type], list[Any]] = defaultdict(list)
        for task in tasks:
            for call in _calls(task):
                for key, value in call.arguments.items():
                    pool = self._values[call.name, key, type(value)]
                    if value not in pool:
                        pool.append(value)

    def __call__(self, situation: PolicyInput) -> str:
        """Return the turn's calls, untold values guessed.

        The same guesses for the same seed and task.
        """
        if situation.step_in_turn:
            return DONE
        draw = random.Random(f"{self._seed} {situation.task.id} {situation.turn}")
        words = set(_WORD.findall(situation.instructions.casefold()))
        calls = oracle_calls(situation.task)[situation.turn]
        guessed = [self._guess_unknown_values(call, situation, words, draw) for call in calls]
        return render(situation, guessed)

    def _guess_unknown_values(
        self, call: Call, situation: PolicyInput, words: set[str], draw: random.Random
    ) -> Call:
        docs = {
            tool["function"]["name"]: tool["function"]["parameters"] for tool in situation.tools
        }
        properties = docs.get(call.name, {}).get("properties", {})
        arguments = {}
        for key, value in call.arguments.items():
            schema = properties.get(key, {})
            known = [*schema.get("enum", []), schema.get("default")]
            told = (_occurs(leaf, situation.user_text, words) for leaf in _leaves(value))
            if value in known or all(told):
                arguments[key] = value
            else:
                arguments[key] = draw.choice(self._values[call.name, key, type(value)])
        return Call(call.name, arguments)


def _occurs(leaf: Any, text: str, words: set[str]) -> bool:
    leaf_text, text = str(leaf).casefold(), text.casefold()
    if leaf_text in words:
        return True
    if isinstance(leaf, int | float):
        number = re.escape(leaf_text.removesuffix(".0"))
        return re.search(rf"(?<![\w.]){number}(?:\.0+)?(?!\w|\.\d)", text) is not None
    return leaf_text in text


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _calls(task: Task) -> list[Call]:
    try:
        return [call for turn in oracle_calls(task) for call in turn]
    except ValueError:  # a ground truth that no call can express has no values to draw from
        return []


def canary_policies(tasks: Sequence[Task], seed: int) -> dict[str, Policy]:
    """Return every canary by name; with those that ask questions if tasks are made for asking.

    A rate well above zero is a way to be rewarded without solving the task; `oracle` below one is a
    task nobody can solve.
    """
    asks = any(task.category in CLARIFY for task in tasks)
    return {
        "noop": noop,
        "echo": echo,
        "first_function": first_function,
        "always_call": always_call,
        "history_blind": HistoryBlind(tasks, seed),
        **({"always_ask": always_ask, "never_ask": never_ask} if asks else {}),
        "oracle": oracle,
    }
