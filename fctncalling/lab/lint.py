"""Lint tasks: replay each ground truth as an answer and report impossible, broken or odd tasks.

Impossible: the official checker accepts no answer that the ground truth allows. Broken: the truth's
own calls are none that a model could make (broken syntax, an unknown function or argument), so that
only an answer which fails alike is accepted. Suspicious: an answer is accepted in an odd way only
(one form, one spelling, one order), the truth's own calls fail, or truth and function docs
contradict each other. Exit code 1 if a task is impossible or, without --impossible, broken.

example:
  fctncalling lint data/bfcl/BFCL_v4_live_simple.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fctncalling.checkers.agentic import standardize_string
from fctncalling.checkers.clarify import missing_parameters
from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar
from fctncalling.cli.shared.parser import add_flag, add_input, add_json_switch, add_switch
from fctncalling.cli.shared.task_finder import use_sibling_long_context_tables
from fctncalling.cli.shared.tool_flags import TaskTools, add_tool_arguments
from fctncalling.data.bfcl import iter_tasks
from fctncalling.data.categories import WITHOUT_ANSWER, UnsupportedCategory
from fctncalling.data.paths import official_data_folder
from fctncalling.data.types import Task, Verdict
from fctncalling.envs.episode_runner import EXECUTION_ERROR, is_tool_error
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.judging.judge import ExtraTools, judge
from fctncalling.envs.judging.oracle import oracle_calls, parse_call_string
from fctncalling.envs.prompting.prompts import TaskPrompt
from fctncalling.envs.python_source.call_source import parse_expression
from fctncalling.envs.users.known_values import known_values
from fctncalling.evaluation.accepted_answers import (
    accepted_answer_texts,
    accepted_calls,
    render_calls,
)
from fctncalling.lab.doctor.finding import BROKEN, IMPOSSIBLE, SUSPICIOUS, HealthCheck, exit_code
from fctncalling.lab.forge.forge_run import text_fault
from fctncalling.lab.own_api.function_choice import function_stems, stems
from fctncalling.model_folder import missing_model_message

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

MOST_PROMPT_TOKENS = 16_384
CHARACTERS_A_TOKEN = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    files = f"task files, or folders of BFCL_*.json files; default: {official_data_folder()}"
    add_input(parser, "--dataset_path", "PATH", files, many=True, required=False)
    add_tool_arguments(parser)
    model = "count tokens as this model does, and tell prompts beyond its context"
    add_flag(parser, "--model", str, "FOLDER", model)
    context = "tokens of a prompt, of about 4 characters each; default: %(default)s"
    add_flag(parser, "--context", int, "N", context, MOST_PROMPT_TOKENS)
    add_switch(parser, "--impossible", "report impossible tasks only")
    add_json_switch(parser)


def run(args: argparse.Namespace) -> int:
    """Lint every task.

    Return 0, 1 if one is impossible or broken, 2 if tasks cannot be read or their tools cannot run.
    """
    paths: list[Path] = args.dataset_path or [official_data_folder()]
    if not args.dataset_path and not paths[0].is_dir():
        raise InputError("no official data is here: get it by import-bfcl, or name a file")
    linter = Linter(TaskTools(args), prompt_limit(args.model, args.context))
    found = linter.lint(paths)
    if args.impossible:
        found = [finding for finding in found if finding.level == IMPOSSIBLE]
    if args.json:
        findings = [
            {**each.figures, "severity": each.level, "rule": each.check, "message": each.message}
            for each in found
        ]
        print(json.dumps({**linter.counts(), "findings": findings}, indent=2))
    else:
        _show(found, linter)
    return exit_code(found)


class PromptLimit(NamedTuple):
    """Most tokens of a task's first prompt: estimated, or as a chat template renders it."""

    tokens: int = MOST_PROMPT_TOKENS
    template: ChatTemplate | None = None

    def excess(self, task: Task) -> str:
        """Return a message if a task's prompt is too long, else ""."""
        prompt = TaskPrompt(task, get_handler("auto"))
        messages, tools = prompt.messages(0), prompt.tools(0)
        if self.template is None:
            texts = [json.dumps(tools), *(str(each.get("content") or "") for each in messages)]
            about, found = "about ", sum(map(len, texts)) // CHARACTERS_A_TOKEN
        else:
            try:
                about, found = "", len(self.template.render_prompt(messages, tools, prompt.system))
            except ValueError as error:  # of the template
                return f"the chat template refuses the prompt: {error}"[:300]
        told = f"the prompt has {about}{found:,} tokens, more than {self.tokens:,}"
        return told if found > self.tokens else ""


def prompt_limit(model: str | None, tokens: int) -> PromptLimit:
    """Return the limit by a model's context and tokenizer, or the given one without a model."""
    if model is None:
        return PromptLimit(tokens)
    if missing := missing_model_message(model):
        raise InputError(f"--model {model}: {missing}")
    from transformers import AutoConfig, AutoTokenizer

    from fctncalling.algorithms.policy.template_file import load_template

    config = AutoConfig.from_pretrained(model, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
    context = getattr(config, "max_position_embeddings", None) or tokens
    return PromptLimit(context, load_template(tokenizer, None, model, None))


class Linter:
    """Linter of tasks one by one, with counts."""

    def __init__(self, tools: TaskTools, longest: PromptLimit | None = None) -> None:
        self._tools = tools
        self._longest = longest or PromptLimit()
        self.num_tasks = 0
        self._unjudged: Counter[str] = Counter()
        self._ids = set[str]()

    def lint(self, paths: Iterable[Path]) -> list[HealthCheck]:
        """Return the findings on all tasks; raises InputError for unreadable or missing tasks."""
        try:
            found = [finding for path in paths for finding in self.findings(path)]
        except LookupError as error:
            raise InputError(str(error)) from None
        if not self.num_tasks:
            raise InputError(f"{', '.join(map(str, paths))}: no task in it")
        return found

    def findings(self, path: Path) -> Iterator[HealthCheck]:
        """Yield the findings on each task of a file or folder.

        Categories that cannot be judged are counted.
        """
        use_sibling_long_context_tables(path)
        tasks = iter_tasks(path, self_documented=self._tools.given)
        self._tools.tell_isolation(iter_tasks(path, self_documented=self._tools.given))
        for task in with_progress_bar(tasks, f"linting {path.name}", "task"):
            self.num_tasks += 1
            if task.id in self._ids:
                fault = suspicious("id_twice", "another task has the same id")
                yield _finding(task, *fault)
            self._ids.add(task.id)
            try:
                tools = self._tools.classes_for((task,), path)
                task = self._tools.with_docs(task, path)
                yield from lint_task(task, tools)
                if told := self._longest.excess(task):
                    yield _finding(task, *suspicious("long_prompt", told))
            except UnsupportedCategory:
                self._unjudged[task.category] += 1

    def counts(self) -> dict[str, object]:
        """Return how many tasks were linted, and of which categories none could be judged."""
        return {"tasks": self.num_tasks, "unjudged": dict(self._unjudged)}


def _show(found: list[HealthCheck], linter: Linter) -> None:
    for each in found:
        print(f"{each.level}  {each.figures['id']}  {each.check}: {each.message}")
    counts = Counter((each.level, each.check) for each in found)
    print(
        ", ".join(f"{number} {severity} ({rule})" for (severity, rule), number in counts.items())
        or "nothing found"
    )
    totals = linter.counts()
    print(
        f"{totals['tasks']} tasks"
        + (f", not judged: {totals['unjudged']}" if totals["unjudged"] else "")
    )


def lint_task(task: Task, extra_tools: ExtraTools | None = None) -> Iterator[HealthCheck]:
    """Yield the findings on a task; `extra_tools` are a user's classes.

    Raises UnsupportedCategory, InfrastructureError, LookupError for a tool.
    """
    kind = task.kind
    rules: tuple[Callable[[Task], Found], ...] = ()
    if kind in ("relevance", "irrelevance"):
        if not task.functions:
            message = "no function is offered, so nothing but text can be answered"
            yield _finding(task, *suspicious("no_functions", message))
    elif task.ground_truth is None:
        if task.category not in WITHOUT_ANSWER:
            message = "no ground truth says what is right, so nothing can pass"
            yield _finding(task, *impossible("no_ground_truth", message))
    elif kind == "multi_turn":
        rules = (_scenarios, _empty_turns, partial(_multi_turn_truth, tools=extra_tools))
    elif kind == "clarify":
        rules = (_check_docs, _questions)
    elif kind == "agentic":
        rules = (_agentic_truth,)
    else:
        rules = (_check_docs, _single_turn_truth, _unnamed_functions)
    for rule in (_objects_said, *rules):
        for fault in rule(task):
            yield _finding(task, *fault)


def _finding(task: Task, level: str, rule: str, message: str) -> HealthCheck:
    return HealthCheck(rule, level, message, figures={"id": task.id, "category": task.category})


_NO_CALL = re.compile(
    rf"{EXECUTION_ERROR}.*?(name '\w+' is not defined|\w+\(\) (got an unexpected|missing|takes) )"
)
_Fault = tuple[str, str, str]  # severity, rule, message
Found = Iterator[_Fault]


def impossible(rule: str, message: str) -> _Fault:
    """Return the fault of a task that no answer can solve."""
    return IMPOSSIBLE, rule, message


def suspicious(rule: str, message: str) -> _Fault:
    """Return the fault of a task with odd solutions only, or with contradictions."""
    return SUSPICIOUS, rule, message


def _questions(task: Task) -> Found:
    """Find a missing value that the user does not know, and a truth that fails."""
    missing, known = missing_parameters(task), known_values(task)
    if unknown := [name for name in missing if name not in known]:
        message = f"missing_parameters: {', '.join(unknown)}: user_knows has no value of it"
        yield impossible("unknown_to_the_user", message)
    answer = render_calls(task, oracle_calls(task)[0])
    verdict = judge(task, [[*missing, answer]])
    if not verdict.valid:
        yield impossible("truth_rejected", f"{verdict.error_type}: {verdict.message}")


_OF_ANY = frozenset(
    stems(
        "get show list find fetch see look tell give bring up retrieve read view check display "
        "know more about details whole entry all everything info good morning evening afternoon "
        "day gotta now quickly one thing again take make put set out into over it me call run"
    )
)
"""Words that name no function by themselves."""


def _unnamed_functions(task: Task) -> Found:
    """Yield the called functions that a request does not name."""
    if len(task.functions) < 2 or task.language != "python":
        return
    texts = (str(each["content"]) for turn in task.question for each in turn)
    said = {stem for text in texts for stem in stems(text)}
    values = json.dumps([[*call.values()] for call in task.ground_truth or ()])
    if not said - {*stems(values)} <= _OF_ANY:
        return
    docs = {doc.name: doc for doc in task.functions}
    for name in dict.fromkeys(name for call in task.ground_truth or () for name in call):
        doc = docs.get(name)
        if doc and said.isdisjoint({*function_stems(dataclasses.asdict(doc))} - _OF_ANY):
            told = f"beside values no word of the request says that it means {name}"
            yield suspicious("unnamed_function", told)


def _objects_said(task: Task) -> Found:
    """Where a user text holds an object as a program writes it."""
    messages = (message for turn in task.question for message in turn)
    texts = [str(message["content"]) for message in messages if message.get("role") == "user"]
    if fault := text_fault(texts, [task.ground_truth, task.functions]):
        yield suspicious("object_said", f"a request {fault}")


def _check_docs(task: Task) -> Found:
    """Where the ground truth and the function docs disagree."""
    docs = {doc.name: doc.parameters for doc in task.functions}
    for expected in task.ground_truth or ():
        for name, accepted in expected.items():
            if name not in docs:
                yield suspicious("undocumented_function", f"{name} has no function doc")
                continue
            documented, required = docs[name].get("properties", {}), docs[name].get("required", ())
            for key, values in accepted.items():
                where = f"{name}.{key}"
                if not isinstance(values, list):
                    message = f"{where}: {values!r:.60} stands where a list of values belongs"
                    yield suspicious("no_list", message)
                elif not values:
                    yield suspicious(
                        "nothing_accepted", f"{where}: the list of accepted values is empty"
                    )
                if key not in documented:
                    message = f"{where} is expected and not documented"
                    yield suspicious("undocumented_parameter", message)
            for key in required:
                if key not in accepted:
                    message = f"{name}.{key} is required and not expected"
                    yield suspicious("unexpected_required", message)


def _single_turn_truth(task: Task) -> Found:
    passed, fault = {}, "no answer can be written"
    for form, style, text in accepted_answer_texts(task):
        if form not in passed:
            verdict = _verdict(task, text, form)
            if verdict.valid:
                passed[form] = style
            elif style == "natural":
                fault = f"{verdict.error_type}: {verdict.message}"[:300]
    if not passed:
        yield impossible("truth_rejected", fault)
    for form in ("prompting", "tool_call"):
        if passed and form not in passed:
            yield suspicious("one_form_only", f"no answer found passes in form {form}: {fault}")
        elif passed.get(form, "natural") != "natural":
            message = f"passes in form {form} only when written as {passed[form]}"
            yield suspicious("odd_answer_only", message)
    if passed:
        yield from _other_answers(task)


RETURN_FORMATS = ("bfcl_json", "bfcl_verbose_xml", "bfcl_concise_xml")


def _other_answers(task: Task) -> Found:
    """Yield the formats that cannot say the expected calls, and whether their order matters."""
    calls = next(accepted_calls(task), None) if task.language == "python" else None
    if calls is None:
        return
    for name in RETURN_FORMATS:
        try:
            get_handler(name).render(calls)
        except ValueError as error:
            yield suspicious("return_format", f"{name}: {error}"[:300])
    if task.kind == "parallel":
        try:
            turned = get_handler("python_calls").render(calls[::-1])
        except ValueError:
            return
        if not judge(task, turned, "prompting").valid:
            yield suspicious("order_matters", "the same calls in reversed order are rejected")


def _verdict(task: Task, text: str, form: str) -> Verdict:
    """Return the verdict; a ground truth that the checker stumbles over rejects every answer."""
    try:
        return judge(task, text, form)
    except (TypeError, ValueError) as error:
        return Verdict(False, 0.0, "unusable ground truth", str(error))


def _scenarios(task: Task) -> Found:
    for name in task.initial_config:
        if name not in task.involved_classes:
            message = f"initial_config holds {name}, which is not involved"
            yield suspicious("scenario_unused", message)


def _empty_turns(task: Task) -> Found:
    if "miss_" in task.category or "composite" in task.category:
        return  # meant so: the agent is to ask
    for turn, calls in enumerate(task.ground_truth or ()):
        if not calls:
            message = f"turn {turn} expects no call, so nothing in it is checked"
            yield suspicious("empty_turn", message)


def _multi_turn_truth(task: Task, tools: ExtraTools | None) -> Found:
    turns = task.ground_truth or ()
    one_call_a_step = [[[call] for call in calls] for calls in turns]
    verdict = judge(task, one_call_a_step, "decoded_calls", extra_tools=tools)
    if not verdict.valid:
        yield impossible("truth_rejected", f"{verdict.error_type}: {verdict.message}"[:300])
        return
    yield from _failing_calls(task, tools)
    docs, texts = {doc.name: doc for doc in task.functions}, list[list[str]]()
    for turn, calls in enumerate(turns):
        texts.append([])
        for call in calls:
            try:
                parsed = parse_call_string(call, docs)
                texts[-1].append(get_handler("python_calls").render([parsed]))
            except ValueError as error:
                yield suspicious("unwritable_call", f"turn {turn}: {error}"[:300])
                return
    verdict = judge(task, texts, "prompting", extra_tools=tools)
    if not verdict.valid:
        yield suspicious("rejected_as_text", f"{verdict.error_type}: {verdict.message}"[:300])


def _failing_calls(task: Task, extra_tools: ExtraTools | None) -> Found:
    tools = ToolSession(
        task.involved_classes,
        task.initial_config,
        long_context=task.long_context,
        extra_tools=extra_tools,
    )
    for turn, calls in enumerate(task.ground_truth or ()):
        for call in calls:
            result = tools.execute(call)
            if is_tool_error(result):
                told = f"turn {turn}: {call} -> {result}"[:300]
                if _is_no_call(call, result):
                    yield BROKEN, "truth_is_no_call", told
                else:
                    yield suspicious("truth_fails", told)


def _is_no_call(call: str, result: str) -> bool:
    """Whether a call failed because its function or arguments do not exist.

    Broken syntax, an unknown name, arguments that the function does not take.
    """
    try:
        parse_expression(call.strip())
    except (ValueError, SyntaxError):
        return True
    return _NO_CALL.match(result) is not None


def _agentic_truth(task: Task) -> Found:
    accepted = [str(answer) for answer in task.ground_truth or ()]
    blank = [answer for answer in accepted if not standardize_string(answer).strip()]
    if blank:
        message = f"accepted answer {blank[0]!r} occurs in every message"
        yield suspicious("anything_accepted", message)
    if not any(judge(task, answer, "prompting").valid for answer in accepted):
        message = f"none of the accepted answers {accepted!r:.200} is found in itself"
        yield impossible("truth_rejected", message)


_MIXED = "the checker leaves items of an ArrayList of mixed types as source text"
_MISNAMED = "the ground truth and the function doc name different parameters"
OFFICIAL_FAULTS = {
    "simple_java_1": (
        "SQLCompletionAnalyzer.makeProposalsFromObject",
        "prompted, the checker loses the body of a HashMap; as a tool call it passes",
    ),
    "simple_java_35": (
        "RedissonConnection.bitOp",
        "prompted, the checker keeps the quotes inside a String[]; as a tool call it passes",
    ),
    "simple_java_36": ("ObjectMapEntryReplayDecoder.decode", _MIXED),
    "simple_java_65": ("RootObjectMapper.doXContent", _MIXED),
    "live_simple_106-63-0": ("record", _MISNAMED),
    "live_simple_112-68-0": ("record", _MISNAMED),
    "live_multiple_862-181-3": ("Trains_1_FindTrains", _MISNAMED),
    "live_multiple_964-207-0": ("transfer_to_human_agent", _MISNAMED),
}
"""Task id -> a function that it offers, which tells it from a user's task of that id, and the
fault.
"""


def unsolvable_official_fault(task: Task) -> str | None:
    """Return why no oracle solves an official task; None for every other task."""
    function, fault = OFFICIAL_FAULTS.get(task.id, ("", None))
    return fault if any(doc.name == function for doc in task.functions) else None
