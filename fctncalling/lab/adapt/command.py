"""Adapt a model to a user's API: tasks, training, report and a served model, in one command.

SPEC is module:Class, an OpenAPI document, mcp:COMMAND or a list of tool schemas. A short probe
makes a plan that keeps to --minutes; then tasks are forged, the base model is measured, taught
(supervised, then TPPO), measured again and exported. OUTPUT has report.html, episodes.html and
model/, a Hugging Face folder with a model card and a client. Interrupted or killed, the same
command goes on. With --evaluate an endpoint's model is measured instead, without training. Exit
code 1 where the report does not say "may be shipped".

example:
  fctncalling adapt my_tools:Thermostat --model models/smollm2 --output thermostat
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from fctncalling.algorithms.run.run_lock import RunLockedError, lock_for_file
from fctncalling.cli.shared.parser import (
    add_flag,
    add_json_switch,
    add_switch,
    missing_training_message,
    print_error,
)
from fctncalling.data.errors import TaskError
from fctncalling.lab.adapt.adapt_settings import AdaptError, AdaptSettings
from fctncalling.lab.adapt.adaptation import Adaptation, evaluate_endpoint
from fctncalling.lab.adapt.played import StageAnswers
from fctncalling.lab.adapt.report import AdaptReport, summary, write_report
from fctncalling.lab.adapt.shipped_model import (
    choice_recall,
    shipped_functions,
    write_shipped_model,
)
from fctncalling.lab.adapt.task_files import HELD_OUT, coverage_of
from fctncalling.lab.own_api.api_part import add_offer_arguments

EVALUATED_TASKS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    add("spec", str, "SPEC", "the API: module:Class, FILE.yaml, FILE.json or mcp:COMMAND")
    add("--output", Path, "FOLDER", "where everything goes", required=True)
    add("--model", str, "MODEL", "base model: a folder, a GGUF file or a hub name")
    add("--minutes", float, "N", "what all stages may take together; default: %(default)g", 60.0)
    add("--test", Path, "FILE", "tasks of your own, measured and never trained on")
    add("--tasks", Path, "FILE", "tasks to learn from, in place of forged ones")
    add(
        "--scenarios",
        Path,
        "FILE",
        "states of a class: a JSON list of what its _load_scenario takes",
    )
    add("--kinds", Path, "FILE", "your own word on kinds of values")
    add("--phrases", Path, "FILE", "your own frames of requests")
    add_offer_arguments(parser)
    add("--seed", int, "N", "of all draws; default: 1", 1)
    add("--torch_threads", int, "N", "CPU threads; default: one a core, at most 4")
    add("--evaluate", str, "openai:NAME", "measure an endpoint's model; trains nothing")
    add("--base_url", str, "URL", "with --evaluate: the endpoint's address")
    add_switch(parser, "--plan", "print what the minutes are planned for, by the probe, and end")
    add_json_switch(parser)


def run(args: argparse.Namespace) -> int:
    """Adapt or measure; return 0, 1 for a model not to be shipped, 2 with one line, 130."""
    try:
        settings = _settings(args)
        with _locked(settings.output):
            if args.plan:
                Adaptation(settings).make_plan()
                return 0
            report = _evaluate(settings) if settings.evaluate else _adapt(settings)
    except (AdaptError, RunLockedError, TaskError, OSError) as error:
        return print_error(error)
    except ModuleNotFoundError as error:
        return print_error(missing_training_message("adapt", error))
    except KeyboardInterrupt:
        print("interrupted: the same command goes on", file=sys.stderr)
        return 130

    print(json.dumps(report.record(), indent=1) if args.json else summary(report))
    print(f"report: {settings.output / 'report.html'}", file=sys.stderr)
    gate, model = report.gate(), settings.output / "model"
    if model.is_dir() and gate.kind != "no":
        print(f"next: vllm serve {shlex.quote(str(model))}", file=sys.stderr)
    return 0 if gate.may_ship else 1


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    """Keep other processes out of an output folder; RunLockedError if one is at work there."""
    output.resolve().parent.mkdir(parents=True, exist_ok=True)
    lock = lock_for_file(output)
    try:
        yield
    finally:
        lock.release(remove=True)


def _settings(args: argparse.Namespace) -> AdaptSettings:
    if (args.model is None) == (args.evaluate is None):
        raise AdaptError("expected --model MODEL to train, or --evaluate openai:NAME to measure")
    if args.plan and args.evaluate:
        raise AdaptError("--plan: nothing is planned with --evaluate: leave one of them out")
    if args.evaluate and not args.evaluate.startswith("openai:"):
        raise AdaptError(f"--evaluate {args.evaluate}: expected openai:NAME")
    if not args.minutes > 0:
        raise AdaptError(f"--minutes {args.minutes:g}: expected a positive number")
    for flag in ("test", "tasks", "scenarios", "kinds", "phrases"):
        file = getattr(args, flag)
        if file is not None and not file.is_file():
            raise AdaptError(f"--{flag} {file}: no such file")
    threads = args.torch_threads or min(4, len(os.sched_getaffinity(0)))
    names = "spec output model minutes test tasks scenarios kinds phrases offered operations tags"
    given = {name: getattr(args, name) for name in (*names.split(), "seed", "evaluate", "base_url")}
    return AdaptSettings(**given, torch_threads=threads)


def _adapt(settings: AdaptSettings) -> AdaptReport:
    adaptation = Adaptation(settings)
    adaptation.run()
    stages, played = adaptation.stages, adaptation.played()
    names = {"before": "base", "supervised": "supervised_score", "TPPO": "tppo_score"}
    names = {name: stage for name, stage in names.items() if stage in played}
    shipped = next((name for name, stage in names.items() if stage == adaptation.shipped), None)
    order = sorted(names, key=lambda name: name == shipped)  # the shipped one last
    told = [*filter(None, [coverage_of(stages.path("tasks"))]), *adaptation.told]
    tasks = stages.path("tasks") / HELD_OUT
    functions = shipped_functions(tasks, settings)
    recall = choice_recall(functions, tasks, settings.offered)
    report = AdaptReport(
        _title(Path(str(settings.model)).name, settings),
        {name: played[names[name]] for name in order},
        stages.costs,
        adaptation.plan.cpu_seconds,
        told,
        recall,
    )
    lines = [report.kept_line()] if shipped else []
    lines += [recall.line()] if recall else []
    report = replace(report, told=[*told, *lines])
    if shipped is not None:
        source = stages.path(names[shipped]) / "model"
        write_shipped_model(source, adaptation.model, report, functions, settings)
    write_report(report, settings)
    return report


def _evaluate(settings: AdaptSettings) -> AdaptReport:
    stages = evaluate_endpoint(settings, EVALUATED_TASKS)
    played = {str(settings.evaluate): StageAnswers.read(stages.path("score"))}
    report = AdaptReport(_title(str(settings.evaluate), settings), played, stages.costs)
    write_report(report, settings)
    return report


def _title(model: str, settings: AdaptSettings) -> str:
    """Return a report's title: the model, and the specification without its folder."""
    path = Path(str(settings.spec))
    return f"{model} for {path.name if path.is_file() else settings.spec}"
