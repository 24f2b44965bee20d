"""The official package's side of the comparisons, run in a separate virtual environment.

`benchmarks/checkers.py` says how that environment is made; nothing of ours is imported here.
COMMANDS lists the subcommands. By itself it records a small set of official verdicts in some
seconds, for anybody to compare ours with:
  python evaluate_fctncalling.py import-bfcl
  /tmp/official/bin/python benchmarks/peers/official_checkers.py record \\
      data/bfcl/verdicts/official.jsonl
  python -m pytest tests/fctncalling/test_official_verdicts.py

As a scorer it judges the answers of `fctncalling conformance`:
  fctncalling conformance --scorer \\
      "/tmp/official/bin/python benchmarks/peers/official_checkers.py scorer"

`bfcl_eval.constants.model_config` imports every vendor's SDK to look up one boolean, so a stand-in
takes its place.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import pkgutil
import sys
import tempfile
import time
import types
from functools import cache
from pathlib import Path
from unittest.mock import MagicMock

os.environ["BFCL_PROJECT_ROOT"] = tempfile.mkdtemp()

TOOL_CALLS = "called"  # how the name of a model begins that answers by tool calls


class Prompted:
    """Decoders of a prompted model's texts."""

    def decode_ast(self, result, language, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import default_decode_ast_prompting

        return default_decode_ast_prompting(result, language, has_tool_call_tag)

    def decode_execute(self, result, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import default_decode_execute_prompting

        return default_decode_execute_prompting(result, has_tool_call_tag)


class Calling:
    """Decoders of lists of {name: arguments}, as in the handlers of OpenAI's models."""

    def decode_ast(self, result, language, has_tool_call_tag=False):
        return [{name: json.loads(call[name])} for call in result for name in [next(iter(call))]]

    def decode_execute(self, result, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import convert_to_function_call

        return convert_to_function_call(result)


HANDLER = Prompted()


class Models(dict):
    """Model table that contains every name, and imports no vendor's SDK."""

    def __missing__(self, name):
        calls = name.startswith(TOOL_CALLS)
        return types.SimpleNamespace(
            underscore_to_dot=calls,
            display_name=name,
            url="",
            org="",
            license="",
            input_price=None,
            output_price=None,
            is_fc_model=calls,
            model_name=name,
            registry_name=name,
        )


def stand_in() -> None:
    """Install a model table that imports no SDK."""
    module = types.ModuleType("bfcl_eval.constants.model_config")
    module.MODEL_CONFIG_MAPPING = Models()
    module.ModelConfig = object
    sys.modules[module.__name__] = module


def evaluate(results: str, scores: str, *categories: str) -> None:
    """Evaluate every model of a result tree with the official command.

    Tasks without an answer do not count.
    """
    stand_in()
    from bfcl_eval.eval_checker import eval_runner

    eval_runner.get_handler = lambda name: Calling() if name.startswith(TOOL_CALLS) else HANDLER
    eval_runner.runner(None, list(categories), Path(results), Path(scores), allow_missing=True)


def aggregate(scores: str) -> None:
    """Write the leaderboard's tables from the headers of score files."""
    stand_in()
    from bfcl_eval.eval_checker import eval_runner_helper as helper

    table: dict = {}
    helper.update_leaderboard_table_with_local_score_file(table, Path(scores))
    helper.generate_leaderboard_csv(table, Path(scores))


def judge(category: str, prompt: dict, truth: list | None, answer: object, number: int) -> dict:
    """Judge one answer; `number` separates the instances of passes."""
    from bfcl_eval.constants.enums import Language, ReturnFormat
    from bfcl_eval.eval_checker import eval_runner as official

    common = (dict(prompt), f"m{number}", category)
    if "multi_turn" in category:
        return official._evaluate_single_multi_turn_entry(
            HANDLER, prompt["id"], answer, truth, *common
        )
    if "relevance" in category:
        return official._evaluate_single_relevance_entry(HANDLER, prompt["id"], answer, *common)
    name = {"simple_java": "JAVA", "simple_javascript": "JAVASCRIPT"}.get(category, "PYTHON")
    return official._evaluate_single_ast_entry(
        HANDLER,
        prompt["id"],
        answer,
        truth,
        *common,
        language=Language[name],
        return_format=ReturnFormat[name],
    )


def entries_of(category: str) -> list:
    """Return (prompt, truth) of a category's tasks."""
    from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

    prompts = load_dataset_entry(
        category, include_prereq=False, include_language_specific_hint=False
    )
    truths = [None] * len(prompts)
    if "relevance" not in category:
        truths = [entry["ground_truth"] for entry in load_ground_truth_entry(category)]
    return list(zip(prompts, truths, strict=True))


def serve(result_dir: str) -> None:
    """For each incoming category, answer CPU seconds and the number of valid answers."""
    stand_in()
    from bfcl_eval.eval_checker import eval_runner  # noqa: F401 - imported before the clock runs

    answers: dict = {}
    for number, line in enumerate(sys.stdin):
        category = json.loads(line)
        if category not in answers:
            [path] = Path(result_dir).rglob(f"BFCL_v4_{category}_result.json")
            results = {
                line["id"]: line["result"]
                for line in map(json.loads, path.read_text().splitlines())
            }
            answers[category] = [
                (*pair, results[pair[0]["id"]])
                for pair in entries_of(category)
                if pair[0]["id"] in results
            ]
        start = time.process_time()
        valid = sum(judge(category, *answer, number)["valid"] for answer in answers[category])
        print(json.dumps([time.process_time() - start, valid]), file=sys.__stdout__, flush=True)


@cache
def entries_by_id(category: str) -> dict:
    """Return (prompt, truth) of a category's tasks by id."""
    return {prompt["id"]: (prompt, truth) for prompt, truth in entries_of(category)}


def verdicts(path: str) -> None:
    """Print [valid, error type] of every record of a file."""
    stand_in()
    for record in map(json.loads, Path(path).read_text(encoding="utf-8").splitlines()):
        entry = entries_by_id(record["category"])[record["id"]]
        result = judge(record["category"], *entry, record["response"], 0)
        print(json.dumps([result["valid"], result.get("error_type")]), file=sys.__stdout__)


def scorer() -> None:
    """Judge every line of standard input, as a scorer of `fctncalling conformance`.

    The package's tools keep what a process did before (class-level defaults, shared long-context
    tables), so each multi-turn answer is judged in a process of its own.
    """
    stand_in()
    from bfcl_eval.eval_checker import eval_runner  # noqa: F401 - before any process is copied

    verdicts = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the package prints
    for record in map(json.loads, sys.stdin):
        category = record["category"]
        entry = entries_by_id(category)[record["task"]["id"]]

        def valid(category=category, entry=entry, text=record["answer"]["text"]) -> bool:
            return judge(category, *entry, text, 0)["valid"]

        verdict = in_a_process(valid) if category.startswith("multi_turn") else valid()
        print(json.dumps({"id": record["id"], "valid": verdict}), file=verdicts, flush=True)


def in_a_process(function) -> bool:
    """Evaluate a predicate in a copy of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        valid = b"?"
        try:
            valid = b"1" if function() else b"0"
        finally:
            os.write(writer, valid)
            os._exit(0)
    os.close(writer)
    answer = os.read(reader, 1)
    os.close(reader)
    os.waitpid(child, 0)
    if answer not in (b"0", b"1"):
        raise RuntimeError("the process gave no verdict")
    return answer == b"1"


def own_tasks(path: str) -> None:
    """Print the verdicts on answers to unofficial tasks, a task per line.

    A line of the file: {"category", "prompt", "truth", "answers": {name: answer}}; `prompt` is the
    task's entry, `truth` its ground truth, None where it has none. A line printed: {name: [valid,
    error type]}.
    """
    stand_in()
    number = 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            task = json.loads(line)
            verdicts = {}
            for name, answer in task["answers"].items():
                number += 1
                result = verdict(task["category"], task["prompt"], task["truth"], answer, number)
                verdicts[name] = [result["valid"], result.get("error_type")]
            print(json.dumps(verdicts), file=sys.__stdout__, flush=True)


SINGLE_TURN = (
    *("simple_python", "simple_java", "simple_javascript", "multiple", "parallel"),
    *("parallel_multiple", "irrelevance", "live_simple", "live_multiple", "live_parallel"),
    *("live_parallel_multiple", "live_irrelevance", "live_relevance"),
)
MULTI_TURN = tuple(
    f"multi_turn_{kind}" for kind in ("base", "miss_func", "miss_param", "long_context")
)


def literal(value: object, language: str) -> str:
    """Write a value as a literal of the category's language."""
    if language == "python":
        return repr(value)
    return value if isinstance(value, str) and language == "java" else json.dumps(value)


def correct_calls(truth: list, language: str) -> list:
    """Return the calls that a ground truth accepts, with the first accepted values."""
    calls = []
    for call in truth:
        [(name, arguments)] = call.items()
        chosen = {key: values[0] for key, values in arguments.items() if values[0] != ""}
        words = ", ".join(f"{key}={literal(value, language)}" for key, value in chosen.items())
        calls.append(f"{name}({words})")
    return calls


def single_turn_answers(prompt: dict, truth: list | None, language: str) -> dict:
    """Return mutation -> text: the right answer and its corruptions."""
    name = prompt["function"][0]["name"]
    answers = {
        "prose": "I cannot help with that.",
        "empty": "",
        "unknown": "[no_such_function(a=1)]",
    }
    answers |= {"bare": f"[{name}()]", "open": f"[{name}("}
    if truth is None:
        return answers
    calls = correct_calls(truth, language)
    text = "[" + ", ".join(calls) + "]"
    answers |= {
        "correct": text,
        "fenced": f"```\n{text}\n```",
        "twice": f"{text[:-1]}, {calls[0]}]",
    }
    answers |= {"first_lost": "[" + ", ".join(calls[1:]) + "]"}
    answers |= {"reversed": "[" + ", ".join(reversed(calls)) + "]"}
    answers |= {"extra": text.replace(")", ", no_such_argument=1)", 1)}
    answers |= {"quoted": text.replace("=", "='", 1), "talk": f"Sure! {text}"}
    return answers


def multi_turn_answers(truth: list) -> dict:
    """Return mutation -> answer: steps of decoded calls, turn by turn."""
    turns = [[[call] for call in turn] for turn in truth]
    return {
        "correct": turns,
        "at_once": [[list(turn)] if turn else [] for turn in truth],
        "last_turn_lost": turns[:-1],
        "last_turn_empty": [*turns[:-1], []],
        "last_call_lost": [*turns[:-1], turns[-1][:-1]],
        "first_call_lost": [turns[0][1:], *turns[1:]],
        "first_turn_twice": [turns[0] * 2, *turns[1:]],
        "unknown": [[["no_such_function(a=1)"], *turns[0]], *turns[1:]],
    }


def record(path: str, per_category: int = 12) -> None:
    """Write official verdicts on answers to tasks of every category, one record per line."""
    stand_in()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        number = 0
        for category in (*SINGLE_TURN, *MULTI_TURN):
            entries = entries_of(category)
            for prompt, truth in entries[:: max(1, len(entries) // per_category)]:
                if category in MULTI_TURN:
                    form, answers = "decoded_calls", multi_turn_answers(truth)
                else:
                    language = category.removeprefix("simple_")
                    language = language if language in ("java", "javascript") else "python"
                    form, answers = "prompting", single_turn_answers(prompt, truth, language)
                for mutation, answer in answers.items():
                    number += 1
                    fields = {"category": category, "form": form, "id": prompt["id"]}
                    fields |= {"response": answer}
                    result = verdict(category, prompt, truth, answer, number)
                    error = result.get("error_type")
                    if error is None and isinstance(result.get("error"), dict):
                        error = result["error"].get("error_type")
                    fields |= {"valid": result["valid"], "error_type": error}
                    file.write(json.dumps({**fields, "mutation": mutation}) + "\n")
            print(f"{category}: done", file=sys.__stdout__, flush=True)


def verdict(category: str, prompt: dict, truth: list | None, answer: object, number: int) -> dict:
    """Judge one answer; decoded calls bypass the decoder."""
    decode = Prompted.decode_execute
    if category.startswith("multi_turn"):
        Prompted.decode_execute = lambda *arguments, **_: arguments[1]
    try:
        return judge(category, prompt, truth, answer, number)
    finally:
        Prompted.decode_execute = decode


class VendorStandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loader of vendors' modules that are not installed: the decoders need none of them."""

    def find_spec(self, name, path=None, target=None):
        """Return a stub specification for a module that no other finder has."""
        if name.startswith("bfcl_eval"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        """Return a module with mocks for all names, classes for those used as bases."""
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: (
            type(name, (Exception,), {}) if name[:1].isupper() else MagicMock()
        )
        return module

    def exec_module(self, module):
        """Return without executing anything."""


def handler_classes() -> dict:
    """Return the package's handler classes by name."""
    from bfcl_eval import model_handler
    from bfcl_eval.model_handler.base_handler import BaseHandler

    by_name = {}
    for info in pkgutil.walk_packages(model_handler.__path__, "bfcl_eval.model_handler."):
        for name, value in vars(importlib.import_module(info.name)).items():
            if isinstance(value, type) and issubclass(value, BaseHandler):
                by_name[name] = value
    return by_name


def decoders(path: str) -> None:
    """Decode the answers of tests/support/decoder_vectors.json by every class; write the results.

    [index, calls, call strings] of each answer, by class; answers in which a class reads neither
    are left out.
    """
    import pandas  # noqa: F401  (it probes what is installed, which a stand-in would say of all)

    sys.meta_path.append(VendorStandIn())
    from bfcl_eval.constants.enums import ReturnFormat
    from bfcl_eval.utils import is_empty_output

    classes = handler_classes()
    vectors = json.loads(Path(path).read_text(encoding="utf-8"))
    for name, rows in vectors["read"].items():
        handler = object.__new__(classes[name.split()[0]])
        handler.is_fc_model = name.endswith(" fc")
        rows.clear()
        for index, answer in enumerate(vectors["answers"]):
            calls = strings = None
            # whatever a decoder raises, the package takes for no call
            with contextlib.suppress(Exception):
                calls = handler.decode_ast(answer, ReturnFormat.PYTHON, False)
                calls = None if is_empty_output(calls) else calls
            with contextlib.suppress(Exception):
                strings = handler.decode_execute(answer, False) or None
            if calls is not None or strings is not None:
                rows.append([index, calls, strings])
    answers = ",\n".join(f"  {json.dumps(answer)}" for answer in vectors["answers"])
    read = ",\n".join(
        f"  {json.dumps(name)}: [\n" + ",\n".join(f"   {json.dumps(row)}" for row in rows) + "\n  ]"
        for name, rows in vectors["read"].items()
    )
    text = f'{{\n "answers": [\n{answers}\n ],\n "read": {{\n{read}\n }}\n}}\n'
    Path(path).write_text(text, encoding="utf-8")


COMMANDS = {
    command.__name__: command
    for command in (aggregate, decoders, evaluate, own_tasks, record, scorer, serve, verdicts)
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
