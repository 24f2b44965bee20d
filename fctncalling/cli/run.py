"""Let an agent play BFCL categories and write its answers, verdicts and episodes as JSON Lines.

Agents: oracle (plays the ground truth), noop, random, hf:FOLDER (a local model, through the trainer's rollout),
openai:MODEL (any OpenAI-compatible endpoint; key in OPENAI_API_KEY, address in --base_url or OPENAI_BASE_URL).
`score` reads the output, `replay` plays it again. Each episode is written when it ends: after an interruption the same
command with --resume plays what is missing. Episodes whose endpoint or tools failed are marked invalid: they count
neither way, and --resume plays them again.

example:
  evaluate_fctncalling.py run --agent openai:my-model --base_url http://localhost:8000/v1 --category multi_turn_base \\
      --output answers.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from pathlib import Path

from fctncalling.agents.agent import FORMS, AgentSetupError
from fctncalling.checkers.leaderboard import LIVE, MEMORY, MULTI_TURN, NON_LIVE, WEB_SEARCH
from fctncalling.cli.records import InputError
from fctncalling.cli.run_episodes import MISSING, Runner
from fctncalling.cli.run_output import OutputFile
from fctncalling.cli.run_report import as_report, table
from fctncalling.cli.task_tools import add_tool_arguments
from fctncalling.data.errors import TaskError
from fctncalling.data.places import official_data_folder
from fctncalling.envs.tools.callables import ToolDefinitionError

_SINGLE = (*NON_LIVE, "irrelevance", *LIVE, "live_irrelevance", "live_relevance")
GROUPS: dict[str, tuple[str, ...]] = {
    "all": (*_SINGLE, *MULTI_TURN, *WEB_SEARCH, *MEMORY),
    "single_turn": _SINGLE,
    "non_live": (*NON_LIVE, "irrelevance"),
    "live": (*LIVE, "live_irrelevance", "live_relevance"),
    "multi_turn": MULTI_TURN,
    "web_search": WEB_SEARCH,
    "memory": MEMORY,
    "agentic": (*WEB_SEARCH, *MEMORY),
}
"""Name of a group of categories -> its categories, as BFCL groups them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    add = parser.add_argument
    add("--agent", required=True, help="oracle, noop, random, hf:FOLDER or openai:MODEL")
    add("--output", type=Path, required=True, help="where answers go, one line an episode: .jsonl")
    add(
        "--category",
        nargs="+",
        default=["all"],
        help=f"categories, or groups: {', '.join(GROUPS)}; default: all",
    )
    add("--data_dir", type=Path, default=official_data_folder(), help="folder of BFCL task files")
    add(
        "--dataset_path",
        type=Path,
        nargs="+",
        help="task files of your own, instead of --data_dir and --category",
    )
    add_tool_arguments(parser)
    add(
        "--form",
        choices=FORMS,
        help="how the agent is asked; default: prompting (hf: as its chat template can)",
    )
    add("--resume", action="store_true", help="go on with --output where it stands")
    add("--limit", type=int, help="play at most so many tasks of each category")
    add(
        "--concurrency",
        type=int,
        default=4,
        help="episodes that run side by side; default: %(default)s",
    )
    add(
        "--seed",
        type=int,
        default=0,
        help="of random choices and of sampling; default: %(default)s",
    )
    add(
        "--max_steps_per_turn",
        type=int,
        default=20,
        help="steps after which a turn fails its task, as BFCL counts",
    )
    add(
        "--temperature",
        type=float,
        default=0.0,
        help="of sampling; 0 is greedy; default: %(default)s",
    )
    add(
        "--max_new_tokens",
        type=int,
        help="longest message, in tokens; default: the endpoint's own; hf: 256",
    )
    add(
        "--max_episode_tokens",
        type=int,
        default=4096,
        help="hf: longest episode, in tokens; default: %(default)s",
    )
    add(
        "--device",
        default="auto",
        choices=("auto", "cpu", "cuda", "mps"),
        help="hf: where tensors live",
    )
    add(
        "--base_url",
        default="",
        help="openai: the endpoint's address, such as http://localhost:8000/v1",
    )
    add("--api_key_env", default="OPENAI_API_KEY", help="openai: environment variable of the key")
    add(
        "--timeout_s",
        type=float,
        default=120.0,
        help="openai: of one request, in seconds; default: %(default)s",
    )
    add(
        "--retries",
        type=int,
        default=5,
        help="openai: repetitions of a request that failed; default: %(default)s",
    )
    add(
        "--retry_wait_s",
        type=float,
        default=1.0,
        help="openai: wait before the first repetition, then doubled",
    )
    add(
        "--max_invalid",
        type=int,
        default=20,
        help="invalid episodes in a row after which the run ends",
    )
    add("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Play every task; return 0, 1 where episodes are invalid, 2 where it cannot go on, 130 after Ctrl-C."""
    try:
        runner = Runner(args, expanded(args.category))
        with (
            closing(runner),
            OutputFile(args.output, runner.settings, resume=args.resume) as output,
        ):
            ended = runner.play(output)
            totals, reason = output.totals(), output.reason
    except (InputError, AgentSetupError, TaskError, ToolDefinitionError, *MISSING) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (LookupError, ImportError, OSError, ValueError) as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if not totals:
        print(
            "error: nothing was played: no task in what --category, --dataset_path and --data_dir name",
            file=sys.stderr,
        )
        return 2
    print(json.dumps(as_report(totals, runner.settings), indent=2) if args.json else table(totals))
    if ended:
        print(
            f"{ended} {args.output} keeps what was played: --resume goes on from there.",
            file=sys.stderr,
        )
        return 130 if ended.startswith("Interrupted") else 2
    num_invalid = sum(each.invalid for each in totals.values())
    if num_invalid:
        print(f"error: {num_invalid} episodes are invalid; the first: {reason}", file=sys.stderr)
    return 1 if num_invalid else 0


def expanded(names: list[str]) -> list[str]:
    """Return categories, groups replaced by theirs, each once."""
    return list(dict.fromkeys(category for name in names for category in GROUPS.get(name, (name,))))
