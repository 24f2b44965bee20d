"""The official package's side of `checkers.py`: runs in its own virtual environment, imports nothing of ours.

`bfcl_eval.constants.model_config` imports every vendor's SDK to look up one boolean, so a stand-in takes its place.
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
    """A prompting model's decoders."""

    def decode_ast(self, result, language, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import default_decode_ast_prompting

        return default_decode_ast_prompting(result, language, has_tool_call_tag)

    def decode_execute(self, result, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import default_decode_execute_prompting

        return default_decode_execute_prompting(result, has_tool_call_tag)


HANDLER = Handler()


def stand_in() -> None:
    """Put a model table in place that knows one kind of model."""
    kind = types.SimpleNamespace(
        underscore_to_dot=False, display_name="m", url="", org="", license="", input_price=None, output_price=None,
        is_fc_model=False, model_handler=lambda **_: Handler(), model_name="m", registry_name="m",
    )  # fmt: skip
    module = types.ModuleType("bfcl_eval.constants.model_config")
    module.MODEL_CONFIG_MAPPING = defaultdict(lambda: kind)
    module.ModelConfig = object
    sys.modules[module.__name__] = module


def score(result_dir: str, score_dir: str, categories: list[str]) -> None:
    """Evaluate a result tree as the official command does."""
    stand_in()
    from bfcl_eval.eval_checker import eval_runner

    eval_runner.get_handler = lambda _: Handler()
    eval_runner.runner(["m"], categories, Path(result_dir), Path(score_dir))


def judge(category: str, prompt: dict, truth: list | None, answer: object, number: int) -> dict:
    """Judge one answer. `number` keeps instances of passes apart."""
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
        truths = [each["ground_truth"] for each in load_ground_truth_entry(category)]
    return list(zip(prompts, truths, strict=True))


def serve(result_dir: str) -> None:
    """Answer each category that comes in by CPU seconds and the number of valid answers."""
    stand_in()
    from bfcl_eval.eval_checker import eval_runner  # noqa: F401 - imported before the clock runs

    kept: dict = {}
    for number, line in enumerate(sys.stdin):
        category = line.strip()
        if category not in kept:
            [path] = Path(result_dir).rglob(f"BFCL_v4_{category}_result.json")
            results = {
                each["id"]: each["result"]
                for each in map(json.loads, path.read_text().splitlines())
            }
            kept[category] = [
                (*pair, results[pair[0]["id"]])
                for pair in entries_of(category)
                if pair[0]["id"] in results
            ]
        start = time.process_time()
        valid = sum(judge(category, *each, number)["valid"] for each in kept[category])
        print(json.dumps([time.process_time() - start, valid]), file=sys.__stdout__, flush=True)


def verdicts(path: str) -> None:
    """Print [valid, error type] of every record of a file."""
    stand_in()
    known: dict = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        category = record["category"]
        if category not in known:
            known[category] = {
                prompt["id"]: (prompt, truth) for prompt, truth in entries_of(category)
            }
        found = judge(category, *known[category][record["id"]], record["response"], 0)
        print(json.dumps([found["valid"], found.get("error_type")]), file=sys.__stdout__)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    elif sys.argv[1] == "verdicts":
        verdicts(sys.argv[2])
    else:
        score(sys.argv[2], sys.argv[3], sys.argv[4:])
