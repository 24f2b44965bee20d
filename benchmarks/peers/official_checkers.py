"""The official package's side of `checkers.py`, run in a separate virtual environment.

By itself it records a small set of official verdicts in some seconds, for anybody to compare ours
with (`checkers.py` tells what goes into /tmp/official):
  python evaluate_fctncalling.py import-bfcl
  /tmp/official/bin/python benchmarks/peers/official_checkers.py record \\
      data/bfcl/verdicts/official.jsonl
  python -m pytest tests/fctncalling/test_official_verdicts.py

`bfcl_eval.constants.model_config` imports every vendor's SDK to look up one boolean, so a stand-in
takes its place.
"""

import json
import os
import sys
import tempfile
import time
import types
from collections import defaultdict
from pathlib import Path

os.environ["BFCL_PROJECT_ROOT"] = tempfile.mkdtemp()


class Handler:
    """Decoders of a prompting model."""

    def decode_ast(self, result, language, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import default_decode_ast_prompting

        return default_decode_ast_prompting(result, language, has_tool_call_tag)

    def decode_execute(self, result, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import default_decode_execute_prompting

        return default_decode_execute_prompting(result, has_tool_call_tag)


HANDLER = Handler()


def stand_in() -> None:
    """Install a model table with one kind of model."""
    kind = types.SimpleNamespace(
        underscore_to_dot=False,
        display_name="m",
        url="",
        org="",
        license="",
        input_price=None,
        output_price=None,
        is_fc_model=False,
        model_handler=lambda **_: Handler(),
        model_name="m",
        registry_name="m",
    )
    module = types.ModuleType("bfcl_eval.constants.model_config")
    module.MODEL_CONFIG_MAPPING = defaultdict(lambda: kind)
    module.ModelConfig = object
    sys.modules[module.__name__] = module


def score(result_dir: str, score_dir: str, categories: list[str]) -> None:
    """Evaluate a result tree with the official command."""
    stand_in()
    from bfcl_eval.eval_checker import eval_runner

    eval_runner.get_handler = lambda _: Handler()
    eval_runner.runner(["m"], categories, Path(result_dir), Path(score_dir))


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
        category = line.strip()
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


def verdicts(path: str) -> None:
    """Print [valid, error type] of every record of a file."""
    stand_in()
    entries: dict = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        category = record["category"]
        if category not in entries:
            entries[category] = {
                prompt["id"]: (prompt, truth) for prompt, truth in entries_of(category)
            }
        result = judge(category, *entries[category][record["id"]], record["response"], 0)
        print(json.dumps([result["valid"], result.get("error_type")]), file=sys.__stdout__)


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
    decode = Handler.decode_execute
    if category.startswith("multi_turn"):
        Handler.decode_execute = lambda *arguments, **_: arguments[1]
    try:
        return judge(category, prompt, truth, answer, number)
    finally:
        Handler.decode_execute = decode


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(sys.argv[2])
    elif sys.argv[1] == "serve":
        serve(sys.argv[2])
    elif sys.argv[1] == "verdicts":
        verdicts(sys.argv[2])
    elif sys.argv[1] == "own_tasks":
        own_tasks(sys.argv[2])
    else:
        score(sys.argv[2], sys.argv[3], sys.argv[4:])
