"""Other projects' scorers of function calls, for `fctncalling conformance`.

Each judges the answer in the form that it asks a model for, by its own functions from its own
files; where those need more than Python, in an environment of its own:

  pip download --no-deps tinker-cookbook==0.6.1 && unzip -q tinker_cookbook*.whl -d /tmp/tinker
  git clone https://github.com/rllm-org/rllm /tmp/rllm        # 9beb6e0f
  python -m venv /tmp/inspect && /tmp/inspect/bin/pip install inspect-ai==0.3.285
  /tmp/inspect/bin/pip install --no-deps inspect-evals==0.26.0 bfcl-eval==2026.3.23 mpmath==1.3.0
  git clone https://github.com/qiancheng0/ToolRL /tmp/toolrl  # 8cee13ec

  fctncalling conformance --category simple_python --scorer \\
      "python benchmarks/peers/others_scorers.py tinker /tmp/tinker"
  fctncalling conformance --scorer "python benchmarks/peers/others_scorers.py rllm /tmp/rllm" \\
      --category simple_python multiple parallel parallel_multiple
  fctncalling conformance --scorer "/tmp/inspect/bin/python benchmarks/peers/others_scorers.py \\
      inspect /tmp/inspect/lib/python3.11/site-packages"
  fctncalling conformance --scorer "python benchmarks/peers/others_scorers.py toolrl /tmp/toolrl" \\
      --category simple_python multiple parallel parallel_multiple

tinker-cookbook knows the 400 tasks of simple_python. Another number of turns than was asked cannot
occur in inspect_evals's loop: no verdict. rLLM knows one right call a task (its own data
are those that were executed), and so does ToolRL: both get the first value that is accepted, and
ToolRL's highest reward counts as valid.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from others_file import loaded

Valid = Callable[[dict[str, Any]], bool]


def one_truth(task: dict[str, Any], arguments: str) -> list[dict[str, Any]]:
    """Return the calls of a task with the first accepted value of each argument."""
    return [
        {"name": name, arguments: first_values(accepted)}
        for truth in task["ground_truth"]
        for name, accepted in truth.items()
    ]


def first_values(accepted: dict[str, Any]) -> dict[str, Any]:
    """Return the first accepted value of each argument, except omission."""
    present = {key: [v for v in values if v != ""] for key, values in accepted.items()}
    return {key: plain(values[0]) for key, values in present.items() if values}


def plain(value: Any) -> Any:
    """Return an accepted value; objects have a list of accepted values for each key."""
    if isinstance(value, dict):
        return first_values(value)
    return [plain(item) for item in value] if isinstance(value, list) else value


def tinker(root: str) -> Valid:
    """tinker-cookbook: an object with name and arguments, compared with the task's truth."""
    scorer = loaded(root, "tinker_cookbook/eval/benchmarks/_bfcl.py")

    def valid(line: dict[str, Any]) -> bool:
        calls = line["answer"]["calls"]
        text = json.dumps(calls[0] if len(calls) == 1 else calls) if calls else None
        call = scorer._extract_function_call(text or line["answer"]["text"])
        truth = line["task"]["ground_truth"][0]
        return call is not None and scorer._match_function_call(call, truth)

    return valid


def rllm(root: str) -> Valid:
    """rLLM: a list of calls against a list of calls."""
    scorer = loaded(root, "rllm/eval/reward_fns/bfcl.py")

    def valid(line: dict[str, Any]) -> bool:
        calls = line["answer"]["calls"] or []
        truth = one_truth(line["task"], "arguments")
        return bool(scorer._compare_function_calls(calls, truth)[0])

    return valid


def toolrl(root: str) -> Valid:
    """ToolRL: calls as JSON lines between tags; the highest reward is 3."""
    os.environ["EXPERIMENT_NAME"] = "qwen"
    scorer = loaded(root, "verl/utils/reward_score/rlla.py")

    def text(calls: list[dict[str, Any]]) -> str:
        return "<tool_call>\n{}\n</tool_call>".format("\n".join(map(json.dumps, calls)))

    def valid(line: dict[str, Any]) -> bool:
        calls = [
            {"name": call["name"], "parameters": call["arguments"]}
            for call in line["answer"]["calls"] or ()
        ]
        answer = text(calls) if calls else line["answer"]["text"]
        truth = text(one_truth(line["task"], "parameters"))
        return bool(scorer.compute_score(f"<|im_start|>assistant{answer}", truth)[2] == 3.0)

    return valid


def inspect(root: str) -> Valid:
    """inspect_evals: tool calls; in several turns their results."""
    model, tool = import_module("inspect_ai.model"), import_module("inspect_ai.tool")
    backends = import_module("inspect_evals.bfcl.backends")
    scorer = import_module("inspect_evals.bfcl.score.scorer")
    turns = import_module("inspect_evals.bfcl.score.multi_turn_scorer")
    kinds = import_module("inspect_evals.bfcl.utils.task_categories").CATEGORIES
    backends.setup_backend_classes(official_tools(Path(root)))

    def single(line: dict[str, Any], how: str) -> bool:
        calls = [
            tool.ToolCall(id=str(index), function=call["name"], arguments=call["arguments"])
            for index, call in enumerate(line["answer"]["calls"] or ())
        ]
        message = model.ChatMessageAssistant(content=line["answer"]["text"], tool_calls=calls)
        metadata = {
            "tools": line["task"]["function"],
            "parsed_ground_truth": line["task"]["ground_truth"] or [],
        }
        state = SimpleNamespace(messages=[message], metadata=metadata)
        if how in ("relevance", "irrelevance"):
            return bool(getattr(scorer, f"{how}_match")(state, None).value)
        return bool(scorer.ast_match(state, None, kinds[line["category"]]).value)

    def several(line: dict[str, Any]) -> bool:
        task, is_long = line["task"], "long_context" in line["category"]
        expected = [
            [
                {"function": call["name"], "arguments": call["arguments"]}
                for step in turn
                for call in step or ()
            ]
            for turn in line["answer"]["calls"]
        ]
        tools = backends.create_instances(task["involved_classes"], task["initial_config"], is_long)
        methods = backends.build_tool_mapping(tools)
        metadata = {
            "raw_ground_truth": task["ground_truth"],
            "model_execution_calls": expected,
            "model_execution_results": [
                [made(methods, call) for call in turn] for turn in expected
            ],
            "involved_classes": task["involved_classes"],
            "initial_config": task["initial_config"],
            "long_context": is_long,
        }
        return bool(turns.multi_turn_match(SimpleNamespace(metadata=metadata), None).value)

    def valid(line: dict[str, Any]) -> bool:
        how = kinds[line["category"]].matching_function
        return several(line) if how == "multi_turn" else single(line, how)

    return valid


def made(methods: dict[str, Any], call: dict[str, Any]) -> Any:
    """Return a call's result as inspect_evals records it."""
    try:
        return methods[call["function"]](**call["arguments"])
    except Exception as error:
        return {"error": f"Error executing {call['function']}: {error}"}


def official_tools(packages: Path) -> Path:
    """Return a folder with the tools of an installed bfcl-eval, in inspect_evals' layout."""
    inside = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code."
    folder = Path(tempfile.mkdtemp())
    for file in (packages / inside.replace(".", "/")).glob("*.py"):
        (folder / file.name).write_text(file.read_text().replace(f"from {inside}", "from "))
    return folder


SCORERS = {scorer.__name__: scorer for scorer in (tinker, rllm, toolrl, inspect)}


def main() -> None:
    """Judge every line of standard input by the named scorer."""
    verdicts = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some print
    valid = SCORERS[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        record = json.loads(line)
        verdict = {"id": record["id"], "valid": None}
        try:
            verdict["valid"] = valid(record)
        except Exception as error:
            verdict["error"] = f"{type(error).__name__}: {error}"[:200]
        print(json.dumps(verdict), file=verdicts, flush=True)


if __name__ == "__main__":
    main()
