"""Tasks of a user's own functions (`forge --api SPEC`): flags, source and coverage."""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError, write_records
from fctncalling.lab.forge.forge_run import (
    ForgeFailure,
    ForgeFiles,
    ForgeReport,
    ForgeRun,
    TaskSource,
)
from fctncalling.lab.forge.forged_entry import ForgedEntry, NoTaskDrawn
from fctncalling.lab.forge.own_api.drawn_call import AskableApi, askable_api, optional_shares
from fctncalling.lab.forge.own_api.logged_requests import LoggedRequests
from fctncalling.lab.forge.own_api.offers import TASKS_AN_OFFER, count_offers, offers_line
from fctncalling.lab.forge.own_api.own_entries import OWN_CATEGORIES, own_entry
from fctncalling.lab.forge.own_api.own_single_turn import can_be_missing, single_call_draft
from fctncalling.lab.forge.own_api.paraphrases import Paraphraser
from fctncalling.lab.own_api.api_part import add_offer_arguments, part_of_api, require_offered
from fctncalling.lab.own_api.kinds import argument_kinds
from fctncalling.lab.own_api.kinds.find import guessed_kind_notes
from fctncalling.lab.own_api.kinds.value_tables import library_versions
from fctncalling.lab.own_api.load import load_api
from fctncalling.lab.own_api.words.frames import read_phrases, write_phrases


class Coverage:
    """Coverage of an API by a file's tasks, computed from its ledger."""

    def __init__(self, api: AskableApi, ledger: Path) -> None:
        self._api = api
        self._calls: Counter[str] = Counter()
        self._said: Counter[tuple[str, str]] = Counter()
        self._left_open: Counter[tuple[str, str]] = Counter()
        categories: Counter[str] = Counter()
        lines = _lines(ledger)
        for line in lines:
            told = line["provenance"]
            categories[line["id"].rpartition("_")[0]] += bool(told["functions"])
            for function, names in zip(told["functions"], told["said"], strict=True):
                self._calls[function] += 1
                self._said.update((function, name) for name in names if name != told.get("missing"))
                if "missing" in told:
                    self._left_open[function, told["missing"]] += 1
        self._tasks = len(lines)
        self._turns = max(categories.values(), default=0)  # of functions, each a call

    def record(self) -> dict[str, Any]:
        """Return covered and total functions and parameters, and the tasks needed for the rest."""
        words, names = self._api.words, self._api.names
        askable = [(f, p) for f in names for p, k in words[f].kinds.items() if k.can_be_asked]
        said = [key for key in askable if self._said[key]]
        kinds = [{words[f].kinds[p].kind for f, p in keys} for keys in (askable, said)]
        return {
            "functions": (sum(self._calls[name] > 0 for name in names), len(names)),
            "parameters": (len(said), len(askable)),
            "kinds_never_drawn": sorted(kinds[0] - kinds[1]),
            "tasks_that_cover": self._tasks_that_cover(askable),
        }

    def _tasks_that_cover(self, askable: Sequence[tuple[str, str]]) -> int:
        """Return how many tasks say everything with a probability of 95 %, about.

        How often a call says a parameter is what the file has, and what is to be, as of two calls.
        """
        names = self._api.names
        shares = {name: optional_shares(self._api.words[name]) for name in names}
        silent = [
            1 - (self._said[f, p] + 2 * shares[f].get(p, 1.0)) / (self._calls[f] + 2)
            for f, p in askable
        ]
        calls = 1
        while sum(each**calls for each in silent) > COVERED and calls < MOST_CALLS:
            calls += max(1, calls // 20)
        turns = max(1 / max(1, self._turns), calls / max(1, self._calls.total()))
        return math.ceil(self._tasks * len(names) * turns)

    def page(self) -> str:
        """Return a Markdown page with a line per function and parameter."""
        api = self._api
        rows = [
            "| function | parameter | kind | evidence | calls | said | left open | why not |",
            "|---|---|---|---|---:|---:|---:|---|",
        ]
        for name, words in api.words.items():
            calls = self._calls[name]
            why = api.unasked.get(name, "" if calls else "no task of this file draws it")
            rows.append(f"| {name} | | | | {calls} | | | {_escaped(why)} |")
            for parameter, kind in words.kinds.items():
                key = (name, parameter)
                told_kind = f"{kind.kind} {kind.topic}".strip()
                evidence = f"{kind.evidence}{' (guessed)' if kind.guessed else ''}"
                rows.append(
                    f"| | {parameter} | {told_kind} | {evidence} | | {self._said[key]} | "
                    f"{self._left_open[key]} | {api.left_out.get(key, '')} |"
                )
        head = f"# {_escaped(api.api.name)}: what {self._calls.total()} calls ask for\n"
        notes = _notes(api)
        tail = ["", "## Notes", "", *(f"- {_escaped(note)}" for note in notes)] if notes else []
        return "\n".join([head, f"{coverage_line(self.record())}\n", *rows, *tail, ""])


COVERED = 0.05  # of what may stay unsaid
MOST_CALLS = 1_000_000


def coverage_line(covered: Mapping[str, Any]) -> str:
    """Return a record of coverage as one line."""
    told = [f"{covered[kind][0]} of {covered[kind][1]} {kind}" for kind in COUNTED]
    never = ", ".join(covered["kinds_never_drawn"])
    return (
        f"{SAID}{' and '.join(told)}; {f'never drawn: {never}; ' if never else ''}"
        f"about {covered['tasks_that_cover']:,} tasks say all"
    )


COUNTED = ("functions", "parameters")
SAID, COVERAGE_PAGE = "said: ", ".coverage.md"  # how the line begins; what the page's name ends in


def _escaped(text: str) -> str:
    """Return a stranger's text as Markdown shows it: no tag, no cell, no link begins in it."""
    return re.sub(r"[\\`*\[\]|]", r"\\\g<0>", html.escape(text, quote=False))


def _notes(api: AskableApi) -> list[str]:
    kinds = {(name, p): k for name, words in api.words.items() for p, k in words.kinds.items()}
    return [*api.offers.notes(), *api.api.notes, *guessed_kind_notes(kinds)]


def _lines(ledger: Path) -> list[dict[str, Any]]:
    with ledger.open(encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return [line for line in found if "provenance" in line]


OWN_VERSION = 11
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
    """Tasks of an own API."""

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
            **{flag: None if path is None else _hash(path) for flag, path in self._files.items()},
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
        covered, offers = coverage.record(), count_offers(_lines(files.ledger))
        record: dict[str, Any] = {
            "output": str(output),
            "coverage": str(page),
            "covered": covered,
            **summary["totals"],
            "offers": offers,
            "api": api.summary(),
            "left_out": dict(api.left_out),
        }
        thrown = ", ".join(f"{n} {why}" for why, n in sorted(record["thrown_away"].items()))
        text = (
            f"{record['tasks']} tasks in {output}; coverage: {page}; drafts thrown away: "
            f"{thrown or 'none'}\n{coverage_line(covered)}\n{offers_line(offers)}{record['api']}"
        )
        if api.tool_class is not None and "multi_turn_base" in summary["settings"]["categories"]:
            runs = f"fctncalling train --dataset_path {output} --allow_task_tools"
            record["next"] = f"{runs} (tasks of several turns run {api.tool_class})"
            text += f"\nnext: {record['next']}"
        return ForgeReport(record, text)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


_FLAGS = ("scenarios", "kinds", "phrases")
MOST_GUESSES_TOLD = 8


def add_own_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags of an own API."""
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
    if args.write_phrases:
        write_phrases(args.write_phrases, askable.frames)
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
    if not any(_may_be_open(api, name) for name in api.names):
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


def _may_be_open(api: AskableApi, name: str) -> bool:
    return any(kind.required and can_be_missing(kind) for kind in api.words[name].kinds.values())


def _told(api: AskableApi) -> list[str]:
    lines = _notes(api)
    more = len(lines) - MOST_GUESSES_TOLD
    told = [f"note: {line}" for line in lines[:MOST_GUESSES_TOLD]]
    if more > 0:
        told.append(f"note: {more} further notes: FILE.coverage.md has them all")
    return told + [f"not asked for: {name}: {why}" for name, why in api.unasked.items()]
