"""Let an agent play BFCL categories and write its answers, verdicts and episodes as JSON Lines.

Agents: oracle (plays the ground truth), noop, random, hf:FOLDER (a local model, through the
trainer's rollout), openai:MODEL (any OpenAI-compatible endpoint; key in OPENAI_API_KEY, address in
--base_url or OPENAI_BASE_URL). `score` reads the output, `replay` plays it again. Each episode is
written when it ends: after an interruption the same command with --resume plays what is missing.
Episodes whose endpoint or tools failed are marked invalid: they count neither way, and --resume
plays them again. A conversation that outgrows the model's context is a failure, marked
context_overflow, as in BFCL. With --num_samples K each task is played K times, and pass@k (at least
one of k answers succeeds) and pass^k (all do) are told with 95 % intervals. The oracle fails on
eight official tasks, four of them in simple_java (96 %), as the official checker rejects their own
ground truth; `canaries` names them.

example:
  fctncalling run --agent openai:my-model --base_url http://localhost:8000/v1 \\
      --category multi_turn_base --output answers.jsonl
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from fctncalling.checkers.leaderboard import LIVE, MEMORY, MULTI_TURN, NON_LIVE, SIZES, WEB_SEARCH
from fctncalling.cli.run.output_file import CategoryCounts, OutputFile, write_result_tree
from fctncalling.cli.run.runner import Runner
from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.cli.shared.output import (
    align_rows,
    interval_text,
    next_command,
    pass_at_k_rows,
    percent,
)
from fctncalling.cli.shared.parser import add_flag, add_switch, print_error
from fctncalling.cli.shared.tool_flags import (
    USER_ERRORS,
    add_dataset_argument,
    add_mcp_arguments,
    add_tool_arguments,
)
from fctncalling.data.format_sensitivity import CATEGORY
from fctncalling.envs.conversations import CONVERSATIONS
from fctncalling.envs.prompting.prompts import PROMPT_STYLES
from fctncalling.envs.users.user_names import NAMES
from fctncalling.evaluation.agents.agent import AgentSetupError


def _rates(totals: CategoryCounts) -> dict[str, Any]:
    count, correct = totals.num_answers, totals.samples.successes
    rates = totals.rates() if count else {}
    return {
        "episodes": count,
        "correct": correct,
        "accuracy": correct / count if count else None,
        "strict_accuracy": rates.get("strict_accuracy"),
        "progress": rates.get("progress"),
        "invalid": totals.invalid,
        "context_overflow": totals.context_overflow,
        "cut_answers": totals.cut,
        "unread_calls": totals.unread,
        **totals.intervals_and_pass_at_k(),
    }


def report_table(totals: Mapping[str, CategoryCounts], settings: Mapping[str, Any]) -> str:
    """Return the report of a run as a plain table of rates in percent.

    Below it stands how tasks were shown: rates of different prompts do not compare.
    """
    rows = [["category", "episodes", "accuracy", "95 % interval", "strict", "progress", "invalid"]]
    for name, each in totals.items():
        rates = _rates(each)
        shown = [percent(rates[key]) for key in ("accuracy", "strict_accuracy", "progress")]
        shown.insert(1, interval_text(rates.get("accuracy_interval")))
        rows.append([name, str(each.num_answers), *shown, str(each.invalid)])
    lines = [align_rows(rows)]
    if any(each.samples.num_samples > 1 for each in totals.values()):
        sampled = {name: each.samples.report() for name, each in totals.items()}
        lines += ["", align_rows(pass_at_k_rows(sampled))]
    if cut := sum(each.cut for each in totals.values()):
        lines.append(f"{cut} answers were cut at the longest message (--max_new_tokens)")
    if unread := sum(each.unread for each in totals.values()):
        lines.append(f"{unread} answers hold a call that could not be read: see fctncalling why")
    if overflows := sum(each.context_overflow for each in totals.values()):
        lines.append(f"{overflows} failed as the conversation outgrew the model's context")
    lines.append(f"form {settings['form']}, prompt style {settings['prompt_style']}")
    return "\n".join(lines)


_SINGLE = (*NON_LIVE, "irrelevance", *LIVE, "live_irrelevance", "live_relevance")
GROUPS: dict[str, tuple[str, ...]] = {
    "all": tuple(SIZES),
    "single_turn": _SINGLE,
    "non_live": (*NON_LIVE, "irrelevance"),
    "live": (*LIVE, "live_irrelevance", "live_relevance"),
    "multi_turn": MULTI_TURN,
    "web_search": WEB_SEARCH,
    "memory": MEMORY,
    "agentic": (*WEB_SEARCH, *MEMORY),
}
"""Name of a group of categories -> its categories, as BFCL groups them."""


def expand_categories(names: list[str]) -> list[str]:
    """Expand categories: groups give way to their members, each once.

    Raises InputError for a near miss.
    """
    known = {*GROUPS, *SIZES, CATEGORY}
    for name in names:
        near = [] if name in known else difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if near:
            raise InputError(f"--category: there is no {name}; is {near[0]} meant?")
    return list(dict.fromkeys(category for name in names for category in GROUPS.get(name, (name,))))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the subcommand `run` to a parser."""
    group = parser.add_argument_group("basic")
    add = partial(add_flag, group)
    agents = "oracle, noop, random, hf:FOLDER or openai:MODEL"
    answers = "where answers go, one line an episode: .jsonl"
    tree = "also write BFCL's result tree there, for the official evaluator and `score`"
    add("--agent", str, "AGENT", agents, required=True)
    add("--output", Path, "FILE", answers, required=True)
    add("--result_dir", Path, "FOLDER", tree)
    add_switch(group, "--resume", "go on with --output where it stands")
    add("--concurrency", int, "N", "episodes that run side by side; default: %(default)s", 4)
    add_switch(group, "--json", "print JSON instead of a table")

    group = parser.add_argument_group("which tasks are played")
    add = partial(add_flag, group)
    names = f"categories, or groups of them: {', '.join(GROUPS)}; default: all"
    add("--category", str, "NAME", names, ["all"], nargs="+")
    add("--limit", int, "N", "play at most N tasks of each category")
    add_dataset_argument(group)
    user = f"who answers a message that calls nothing: {NAMES}, hf:FOLDER; default: rule in "
    add("--user", str, "NAME", user + "tasks made for questions, else the task's script")
    add_tool_arguments(group)
    add_mcp_arguments(group)
    _add_sampling(partial(add_flag, parser.add_argument_group("how the agent is asked")))

    add = partial(add_flag, parser.add_argument_group("hf: a model in a folder"))
    add("--chat_template", str, "FILE", "in place of the folder's own")
    add("--max_episode_tokens", int, "N", "longest episode, in tokens; default: %(default)s", 4096)
    devices, dtypes = ("auto", "cpu", "cuda", "mps"), ("auto", "float32", "bfloat16")
    add("--device", str, None, "where tensors live; default: %(default)s", "auto", choices=devices)
    passes = "precision of passes; auto: that of the weights; default: %(default)s"
    add("--compute_dtype", str, None, passes, "auto", choices=dtypes)
    threads = "CPU threads of one operation; more help large models only; default: %(default)s"
    add("--torch_threads", int, "N", threads, 1)

    add = partial(add_flag, parser.add_argument_group("openai: a model behind an endpoint"))
    url = "the endpoint's address, such as http://localhost:8000/v1; default: OPENAI_BASE_URL"
    key = "environment variable that holds the key; default: %(default)s"
    whole = "of one request, to its last byte; default: %(default)s"
    wait = "wait before the first repetition, then doubled; default: %(default)s"
    add("--base_url", str, "URL", url, "")
    add("--api_key_env", str, "NAME", key, "OPENAI_API_KEY")
    add("--timeout_s", float, "SECONDS", whole, 120.0)
    add("--retries", int, "N", "repetitions of a request that failed; default: %(default)s", 5)
    add("--retry_wait_s", float, "SECONDS", wait, 1.0)


def _add_sampling(add: Callable[..., None]) -> None:
    form = (
        "prompting: functions in the system message, calls in the text; tool_call: the "
        "endpoint's own tool calls; tools_text: schemas to the endpoint, calls read from its text. "
        "Default: prompting (hf: as its chat template can)"
    )
    style = (
        "functions in the system message as BFCL's JSON, or compact: as signatures, in a "
        "fifth to a half of the tokens; default: %(default)s"
    )
    kwargs = 'arguments of the chat template, such as {"enable_thinking": false}'
    samples = "play each task K times and tell pass@k and pass^k; default: %(default)s"
    longest = "longest message, in tokens; default: the endpoint's own; hf: 256"
    steps = "steps after which a turn fails its task, as BFCL counts; default: %(default)s"
    invalid = "invalid episodes in a row after which the run ends; default: %(default)s"
    add("--form", str, None, form, choices=tuple(CONVERSATIONS))
    add("--prompt_style", str, None, style, "bfcl", choices=tuple(PROMPT_STYLES))
    add("--chat_template_kwargs", str, "JSON", kwargs)
    add("--temperature", float, "T", "of sampling; 0 is greedy; default: %(default)s", 0.0)
    add("--num_samples", int, "K", samples, 1)
    add("--seed", int, "N", "of random choices and of sampling; default: %(default)s", 0)
    add("--max_new_tokens", int, "N", longest)
    add("--max_steps_per_turn", int, "N", steps, 20)
    add("--max_invalid", int, "N", invalid, 20)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand `run`: play every task.

    Return 0, 1 if episodes are invalid, 2 if it cannot go on, 130 after Ctrl-C.
    """
    try:
        runner = Runner(args, expand_categories(args.category))
        with (
            closing(runner),
            OutputFile(args.output, runner.settings, resume=args.resume) as output,
        ):
            ended = runner.play(output)
            totals, reason = output.totals(), output.reason
        if args.result_dir and totals:
            write_result_tree(args.output, args.result_dir, runner.model)
    except AgentSetupError as error:
        return print_error(error)
    except USER_ERRORS:
        raise
    except (LookupError, ImportError, ValueError) as error:
        return print_error(f"{type(error).__name__}: {error}")
    if not totals:
        return print_error("nothing was played: no task in what --category and --dataset_path name")
    rates = {name: _rates(each) for name, each in totals.items()}  # 0..1, by category
    report = {**runner.settings, "categories": rates}
    print(json.dumps(report, indent=2) if args.json else report_table(totals, runner.settings))
    if ended:
        print(
            f"{ended}. {args.output} keeps what was played: --resume goes on from there.",
            file=sys.stderr,
        )
        return 130 if ended.startswith("Interrupted") else 2
    num_invalid = sum(each.invalid for each in totals.values())
    if num_invalid:
        print(f"error: {num_invalid} episodes are invalid; the first: {reason}", file=sys.stderr)
    if not args.json:
        failed = any(rate["accuracy"] not in (None, 1.0) for rate in rates.values())
        print(next_command("why" if failed else "view", args.output, like=args))
    return 1 if num_invalid else 0
