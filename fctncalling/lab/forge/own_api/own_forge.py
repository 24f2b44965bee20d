"""Tasks of a user's functions (`forge --api SPEC`): flags, source and coverage."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError, write_records
from fctncalling.cli.shared.output import next_command
from fctncalling.lab.forge.forge_run import (
    ForgeFailure,
    ForgeFiles,
    ForgeReport,
    ForgeRun,
    TaskSource,
)
from fctncalling.lab.forge.forged_entry import ForgedEntry, NoTaskDrawn
from fctncalling.lab.forge.own_api.coverage import (
    COVERAGE_PAGE,
    Coverage,
    coverage_line,
    coverage_notes,
)
from fctncalling.lab.forge.own_api.drawn_call import AskableApi, askable_api, frames_of_api
from fctncalling.lab.forge.own_api.logged_requests import LoggedRequests
from fctncalling.lab.forge.own_api.offers import TASKS_AN_OFFER
from fctncalling.lab.forge.own_api.own_entries import OWN_CATEGORIES, own_entry
from fctncalling.lab.forge.own_api.own_single_turn import (
    functions_weighted_by_askable_values,
    single_call_draft,
)
from fctncalling.lab.forge.own_api.paraphrases import Paraphraser
from fctncalling.lab.own_api.api_part import add_offer_arguments, part_of_api, require_offered
from fctncalling.lab.own_api.kinds import argument_kinds
from fctncalling.lab.own_api.kinds.value_tables import library_versions
from fctncalling.lab.own_api.load import load_api
from fctncalling.lab.own_api.words.frames import read_phrases, write_phrases

OWN_VERSION = 15
"""Raised where the same seed gives other tasks than before."""


def next_part(api: AskableApi, parts: Sequence[AskableApi], seed: int) -> AskableApi:
    """Return the next part of a large API, about a function that few parts have.

    Every other one is what a request for that function chooses.
    """
    rng = Random(f"{seed} part {len(parts)}")
    offered = Counter(name for part in parts for name in part.names)
    function, request = min(api.names, key=lambda name: offered[name]), ""
    if len(parts) % 2:
        with suppress(NoTaskDrawn):
            request = single_call_draft(api, rng, function).question
    return api.part(api.offers.part(function, request, rng))


class OwnApiSource(TaskSource):
    """Tasks of a user's API."""

    weights = OWN_CATEGORIES
    max_attempts = 60

    def __init__(
        self,
        api: AskableApi,
        files: Mapping[str, Path | None] | None = None,
        paraphraser: Paraphraser | None = None,
    ) -> None:
        """`files`: flag -> file that was read beside the API."""
        self._api = api
        self._files = files or {}
        self._paraphraser = paraphraser
        self._parts: list[AskableApi] = []
        self._gives_none = set[tuple[int, str]]()  # parts, and categories that they have nothing of

    def draw(self, category: str, seed: int, index: int, attempt: int) -> ForgedEntry:
        try:
            drawn = self._draw_of_part(category, seed, index, attempt)
            return drawn or own_entry(self._api, category, seed, index, attempt)
        except NoTaskDrawn as fault:
            raise ForgeFailure(f"{self._api.api.source}: {fault}") from None

    def _draw_of_part(
        self, category: str, seed: int, index: int, attempt: int
    ) -> ForgedEntry | None:
        """Draw a task to learn from, of the part of a large API that several tasks offer."""
        api = self._api
        if category == "multi_turn_base" or api.held_out or api.offers.choice.takes_all:
            return None
        weights = sum(OWN_CATEGORIES.values()) - OWN_CATEGORIES["multi_turn_base"]
        number = int(index * weights / OWN_CATEGORIES[category] / TASKS_AN_OFFER)
        if (number, category) in self._gives_none:
            return None
        while len(self._parts) <= number:  # in their order, whatever is asked for first
            self._parts.append(next_part(api, self._parts, seed))
        try:
            return own_entry(self._parts[number], category, seed, index, attempt)
        except NoTaskDrawn:
            self._gives_none.add((number, category))
            return None

    def reworded(self, drawn: ForgedEntry) -> ForgedEntry:
        if self._paraphraser is None:
            return drawn
        return drawn._replace(entry=self._paraphraser.reworded(drawn.entry))

    def record(self) -> dict[str, Any]:
        api = self._api.api
        docs = [[doc.name, doc.description, doc.parameters] for doc in api.functions]
        text = json.dumps([docs, list(api.scenarios)], sort_keys=True, default=str)
        return {
            "own_version": OWN_VERSION,
            "libraries": library_versions(),
            "api": api.source,
            "api_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "held_out": self._api.held_out,
            "offered": self._api.offers.choice.most,
            "paraphrased": self._paraphraser is not None,
            **{
                flag: path and hashlib.sha256(path.read_bytes()).hexdigest()
                for flag, path in self._files.items()
            },
        }

    def run_dry(self, category: str, index: int) -> str:
        return (
            f"{category}: no new text after {self.max_attempts} attempts at number {index}: the "
            f"API gives about {index} of them; pass a smaller --num_tasks, or phrases of your own, "
            "--phrases FILE"
        )

    def report(self, files: ForgeFiles, *, is_new: bool) -> ForgeReport:
        if self._paraphraser is not None:
            told = ", ".join(f"{n} {why}" for why, n in self._paraphraser.counts.most_common())
            print(f"paraphrases: {told}; log: {self._paraphraser.log}", file=sys.stderr)
            self._paraphraser.close()
        api, output, summary = self._api.api, files.output, files.summary()
        page = output.with_name(f"{output.name}{COVERAGE_PAGE}")
        coverage = Coverage(self._api, files.ledger)
        page.write_text(coverage.page(), encoding="utf-8")
        covered = coverage.record()
        record: dict[str, Any] = {
            "output": str(output),
            "coverage": str(page),
            "covered": covered,
            **summary["totals"],
            "api": api.summary(),
            "left_out": dict(api.left_out),
        }
        drawn_again = sum(record["thrown_away"].values())
        text = (
            f"{record['tasks']} tasks in {output}; {drawn_again} drafts that could be understood "
            f"otherwise or could not be proven were drawn again, as usual: {files.ledger} counts "
            f"them\n{coverage_line(covered)}\n{record['api']}"
        )
        record["next"] = next_command("lint", "--dataset_path", output)
        if api.tool_class is not None and "multi_turn_base" in summary["settings"]["categories"]:
            runs = f"fctncalling train --dataset_path {output} --allow_task_tools"
            record["next"] = f"next: {runs} (tasks of several turns run {api.tool_class})"
        return ForgeReport(record, f"{text}\n{record['next']}\nrequests to look at: {page}")


_FLAGS = ("scenarios", "kinds", "phrases")
MOST_NOTES_TOLD = 8


def add_own_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags of a user's API."""
    add = parser.add_argument
    add(
        "--api",
        metavar="SPEC",
        help="your own functions: module:Class, an OpenAPI document or tool schemas "
        "(FILE.yaml, FILE.json), mcp:COMMAND or mcp:URL",
    )
    add_offer_arguments(parser)
    states = "states of a Python class to begin from: a JSON list of what its _load_scenario takes"
    add("--scenarios", type=Path, metavar="FILE", help=states)
    add("--kinds", type=Path, metavar="FILE", help="kinds of values, where they are guessed wrong")
    add("--phrases", type=Path, metavar="FILE", help="phrases of your own, used beside ours")
    add(
        "--from_logs",
        type=Path,
        metavar="FILE",
        help="conversations of your own, as OpenAI, Anthropic, Gemini, LangChain, gateways or data "
        "sets write them: the requests that calls answered go to FILE.from_logs.jsonl beside "
        "--output, for you to confirm",
    )
    url = "endpoint of OpenAI's form, whose model says requests in other words, or the log of one"
    add("--paraphrase", metavar="URL", help=f"{url}; FILE.paraphrases.jsonl beside --output")
    add("--paraphrase_model", metavar="NAME", default="default", help="its model")
    add("--write_phrases", type=Path, metavar="FILE", help="write our phrases for you to edit")
    add(
        "--held_out",
        type=int,
        default=0,
        metavar="N",
        help="write N tasks more to FILE.held_out.jsonl, of phrases and values that FILE has not",
    )


def own_runs(args: argparse.Namespace) -> Iterator[tuple[OwnApiSource, ForgeRun, Path]]:
    """Yield source, run and output of the tasks that a command's flags ask for."""
    require_offered(args.offered)
    api = load_api(args.api, scenarios=args.scenarios)
    api = part_of_api(api, args.operations, args.tags)
    kinds = argument_kinds(api, args.kinds)
    phrases = read_phrases(args.phrases, api, kinds) if args.phrases else {}
    askable = askable_api(api, kinds, phrases, offered=args.offered)
    if not askable.names:
        first = next(iter(askable.unasked.items()), ("", "it has no function"))
        raise InputError(f"{args.api}: nothing can be asked for: {first[0]}: {first[1]}")
    for line in _told(askable):
        print(line, file=sys.stderr)
    for name, frames in phrases.items():
        if not any(frame.function == name for frame in frames):
            print(f"note: --phrases: {name}: no line is left: ours are used", file=sys.stderr)
    if args.write_phrases:
        write_phrases(args.write_phrases, frames_of_api(askable.words, phrases))
        print(f"phrases: {args.write_phrases}", file=sys.stderr)
    if args.from_logs:
        _write_logged(LoggedRequests(args.from_logs, askable), args.from_logs, args.output)
    yield _own_run(args, askable, args.output, args.num_tasks)
    if args.held_out:
        rest = askable_api(api, kinds, phrases, held_out=True, offered=args.offered)
        path = args.output.with_name(f"{args.output.name}.held_out.jsonl")
        yield _own_run(args, rest, path, args.held_out)


def _own_run(
    args: argparse.Namespace, askable: AskableApi, output: Path, num_tasks: int
) -> tuple[OwnApiSource, ForgeRun, Path]:
    categories = categories_to_make(args.category, askable, args.seed)
    log = args.output.with_name(f"{args.output.name}.paraphrases.jsonl")
    paraphraser = args.paraphrase and Paraphraser(args.paraphrase, args.paraphrase_model, log)
    files = {flag: getattr(args, flag) for flag in _FLAGS}
    source = OwnApiSource(askable, files, paraphraser or None)
    return source, ForgeRun(source, num_tasks, args.seed, categories), output


def _write_logged(requests: LoggedRequests, logs: Path, output: Path) -> None:
    path = output.with_name(f"{output.name}.from_logs.jsonl")
    write_records(path, requests.tasks())
    left_out = f"left out: {requests.left_out()}"
    if not requests.count:
        path.unlink()
        raise InputError(f"--from_logs {logs}: holds no request that calls answered; {left_out}")
    steps = f" ({requests.num_results} of them follow results)" if requests.num_results else ""
    told = f"{requests.count} requests of {logs}{steps} in {path}, for you to confirm"
    print(f"{told}; {left_out}", file=sys.stderr)


def categories_to_make(named: Sequence[str] | None, api: AskableApi, seed: int) -> tuple[str, ...]:
    """Return the categories to make: those named, else all that the API allows."""
    allowed = [
        name
        for name in OWN_CATEGORIES
        if name != "multi_turn_base" or api.api.tool_class is not None
    ]
    if not functions_weighted_by_askable_values(api):
        allowed.remove("clarify")
    if named is None:
        faults = {name: _why_no_task(api, name, seed) for name in allowed}
        part = " (held out)" * api.held_out
        for fault in filter(None, faults.values()):
            print(f"not made{part}: {fault}", file=sys.stderr)
        if given := tuple(name for name, fault in faults.items() if not fault):
            return given
        raise InputError(f"{api.api.source}: no request can be made: --phrases FILE can give some")
    if unknown := [name for name in named if name not in allowed]:
        raise InputError(f"--category {unknown[0]}: this API allows {', '.join(allowed)}")
    return tuple(name for name in allowed if name in named)


def _why_no_task(api: AskableApi, category: str, seed: int) -> str:
    """Return why an API gives no task of a category, as a lone function that is called twice."""
    try:
        own_entry(api, category, seed, 0, 0)
    except NoTaskDrawn as fault:
        return str(fault)
    return ""


def _told(api: AskableApi) -> list[str]:
    lines = coverage_notes(api, most_named=0)
    more = len(lines) - MOST_NOTES_TOLD
    told = [f"note: {line}" for line in lines[:MOST_NOTES_TOLD]]
    if more > 0:
        told.append(f"note: {more} further notes: FILE.coverage.md has them all")
    return told + [f"not asked for: {name}: {why}" for name, why in api.unasked.items()]
