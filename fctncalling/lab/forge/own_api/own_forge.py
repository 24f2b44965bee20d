"""`forge --api SPEC`: settings, run and coverage of the tasks of a user's own functions."""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar, write_records
from fctncalling.lab.forge.forge_run import BaseForgeRun, ForgeFailure, ForgeFiles, apportion_tasks
from fctncalling.lab.forge.forged_entry import ForgedEntry, NoTaskDrawn
from fctncalling.lab.forge.own_api.drawn_call import AskableApi, askable_api
from fctncalling.lab.forge.own_api.logged_requests import LoggedRequests
from fctncalling.lab.forge.own_api.own_entries import OWN_CATEGORIES, own_entry
from fctncalling.lab.forge.own_api.own_single_turn import can_be_missing
from fctncalling.lab.forge.own_api.paraphrases import Paraphraser
from fctncalling.lab.own_api.api import OwnApi
from fctncalling.lab.own_api.kinds import argument_kinds
from fctncalling.lab.own_api.kinds.find import guessed_kind_notes
from fctncalling.lab.own_api.kinds.value_tables import library_versions
from fctncalling.lab.own_api.load import load_api
from fctncalling.lab.own_api.words.frames import read_phrases, write_phrases


def coverage_page(api: AskableApi, ledger: Path) -> str:
    """Return a page in Markdown: a line a function and a parameter, with why one is not asked."""
    calls: Counter[str] = Counter()
    said: Counter[tuple[str, str]] = Counter()
    left_open: Counter[tuple[str, str]] = Counter()
    for line in _lines(ledger):
        told = line["provenance"]
        for function, names in zip(told["functions"], told["said"], strict=True):
            calls[function] += 1
            said.update((function, name) for name in names if name != told.get("missing"))
            if "missing" in told:
                left_open[function, told["missing"]] += 1
    rows = [
        "| function | parameter | kind | evidence | calls | said | left open | why not |",
        "|---|---|---|---|---:|---:|---:|---|",
    ]
    for name, words in api.words.items():
        why = api.unasked.get(name, "" if calls[name] else "no task of this file draws it")
        rows.append(f"| {name} | | | | {calls[name]} | | | {_escaped(why)} |")
        for parameter, kind in words.kinds.items():
            key = (name, parameter)
            told_kind = f"{kind.kind} {kind.topic}".strip()
            evidence = f"{kind.evidence}{' (guessed)' if kind.guessed else ''}"
            rows.append(
                f"| | {parameter} | {told_kind} | {evidence} | | {said[key]} | {left_open[key]} | "
                f"{api.left_out.get(key, '')} |"
            )
    head = f"# {_escaped(api.api.name)}: what {sum(calls.values())} calls ask for\n"
    notes = _notes(api)
    tail = ["", "## Notes", "", *(f"- {_escaped(note)}" for note in notes)] if notes else []
    return "\n".join([head, *rows, *tail, ""])


def _escaped(text: str) -> str:
    """Return a stranger's text as Markdown shows it: no tag, no cell, no link begins in it."""
    return re.sub(r"[\\`*\[\]|]", r"\\\g<0>", html.escape(text, quote=False))


def _notes(api: AskableApi) -> list[str]:
    kinds = {(name, p): k for name, words in api.words.items() for p, k in words.kinds.items()}
    return [*api.api.notes, *guessed_kind_notes(kinds)]


def _lines(ledger: Path) -> list[dict[str, Any]]:
    with ledger.open(encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return [line for line in found if "provenance" in line]


class OwnForgeRun(BaseForgeRun):
    """Run that makes an own API's tasks in their order."""

    max_attempts = 60

    def __init__(
        self, settings: OwnForgeSettings, api: AskableApi, paraphraser: Paraphraser | None = None
    ) -> None:
        super().__init__(settings.counts(), settings.seed)
        self._api = api
        self._source = settings.api.source
        self._paraphraser = paraphraser

    def _made(self, category: str, index: int, attempt: int) -> ForgedEntry:
        try:
            made = own_entry(self._api, category, self._seed, index, attempt)
        except NoTaskDrawn as fault:
            raise ForgeFailure(f"{self._source}: {fault}") from None
        if self._paraphraser is None:
            return made
        return made._replace(entry=self._paraphraser.reworded(made.entry))

    def _run_dry(self, category: str, index: int) -> str:
        return (
            f"{category}: no new text after {self.max_attempts} attempts at number {index}: the "
            f"API gives about {index} of them; pass a smaller --num_tasks, or phrases of your own, "
            "--phrases FILE"
        )


OWN_VERSION = 7
"""Raised where the same seed gives other tasks than before."""


@dataclass(frozen=True)
class OwnForgeSettings:
    """The flags of a run, and hashes of what it reads."""

    num_tasks: int
    seed: int
    categories: tuple[str, ...]
    api: OwnApi
    files: tuple[tuple[str, Path | None], ...] = ()  # flag -> file
    held_out: bool = False
    paraphrased: bool = False

    def counts(self) -> dict[str, int]:
        """Return how many tasks each category gets."""
        weights = {name: OWN_CATEGORIES[name] for name in self.categories}
        return apportion_tasks(self.num_tasks, weights)

    def record(self) -> dict[str, Any]:
        """Return the settings as the ledger holds them."""
        docs = [[doc.name, doc.description, doc.parameters] for doc in self.api.functions]
        read = [docs, list(self.api.scenarios)]
        text = json.dumps(read, sort_keys=True, default=str)
        return {
            "own_version": OWN_VERSION,
            "libraries": library_versions(),
            "api": self.api.source,
            "api_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "num_tasks": self.num_tasks,
            "seed": self.seed,
            "categories": list(self.categories),
            "held_out": self.held_out,
            "paraphrased": self.paraphrased,
            **{flag: None if path is None else _hash(path) for flag, path in self.files},
        }


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


_FLAGS = ("scenarios", "kinds", "phrases")
MOST_GUESSES_TOLD = 8


def add_own_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of an own API."""
    add = parser.add_argument_group("tasks of your own API").add_argument
    add(
        "--api",
        metavar="SPEC",
        help="your own functions: module:Class, an OpenAPI document or tool schemas "
        "(FILE.yaml, FILE.json), mcp:COMMAND or mcp:URL",
    )
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


def run_own(args: argparse.Namespace) -> int:
    """Make the tasks, their ledger and the coverage table; return 0."""
    api = load_api(args.api, scenarios=args.scenarios)
    kinds = argument_kinds(api, args.kinds)
    phrases = read_phrases(args.phrases, api, kinds) if args.phrases else {}
    askable = askable_api(api, kinds, phrases)
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
    report = [_made(args, api, askable, args.output, args.num_tasks)]
    if args.held_out:
        rest = askable_api(api, kinds, phrases, held_out=True)
        path = args.output.with_name(f"{args.output.name}.held_out.jsonl")
        report.append(_made(args, api, rest, path, args.held_out))
    print(json.dumps(report, indent=2) if args.json else "\n".join(map(_line, report)))
    return 0


def _made(
    args: argparse.Namespace, api: OwnApi, askable: AskableApi, output: Path, num_tasks: int
) -> dict[str, object]:
    settings = OwnForgeSettings(
        num_tasks,
        args.seed,
        categories_to_make(args.category, askable, args.seed),
        api,
        tuple((flag, getattr(args, flag)) for flag in _FLAGS),
        askable.held_out,
        paraphrased=args.paraphrase is not None,
    )
    files = ForgeFiles(output, settings.record())
    log = args.output.with_name(f"{args.output.name}.paraphrases.jsonl")
    paraphraser = args.paraphrase and Paraphraser(args.paraphrase, args.paraphrase_model, log)
    _write(files, settings, OwnForgeRun(settings, askable, paraphraser or None))
    if paraphraser:
        paraphraser.close()
        told = ", ".join(f"{count} {why}" for why, count in paraphraser.counts.most_common())
        print(f"paraphrases: {told}; log: {log}", file=sys.stderr)
    page = output.with_name(f"{output.name}.coverage.md")
    page.write_text(coverage_page(askable, files.ledger), encoding="utf-8")
    totals = files.summary()["totals"]
    runs_class = api.tool_class is not None and "multi_turn_base" in settings.categories
    runs = f"fctncalling train --dataset_path {output} --allow_task_tools"
    more: dict[str, object] = {"api": api.summary(), "left_out": dict(api.left_out)}
    if runs_class:
        more["next"] = f"{runs} (tasks of several turns run {api.tool_class})"
    return {"output": str(output), "coverage": str(page), **totals, **more}


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


def _write(files: ForgeFiles, settings: OwnForgeSettings, run: OwnForgeRun) -> None:
    if files.is_finished():
        return
    with files:
        for entry, line in with_progress_bar(run.tasks(), "forging", "task", settings.num_tasks):
            files.write(entry, line)
        files.finish()


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


def _line(report: Mapping[str, object]) -> str:
    thrown = report["thrown_away"]
    assert isinstance(thrown, dict)
    told = ", ".join(f"{count} {why}" for why, count in sorted(thrown.items())) or "none"
    return (
        f"{report['tasks']} tasks in {report['output']}; coverage: {report['coverage']}; "
        f"drafts thrown away: {told}\n{report['api']}"
        + (f"\nnext: {report['next']}" if "next" in report else "")
    )
