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


def judge_all(category: str, entries: list, results: dict, number: int) -> int:
    """Judge every answer of a category; return how many are valid. `number` keeps instances of passes apart."""
    from bfcl_eval.constants.enums import Language, ReturnFormat
    from bfcl_eval.eval_checker import eval_runner as official

    name = {"simple_java": "JAVA", "simple_javascript": "JAVASCRIPT"}.get(category, "PYTHON")
    handler, valid = Handler(), 0
    for prompt, truth in entries:
        common = (dict(prompt), f"m{number}", category)
        if "multi_turn" in category:
            found = official._evaluate_single_multi_turn_entry(
                handler, prompt["id"], results[prompt["id"]], truth, *common
            )
        elif "relevance" in category:
            found = official._evaluate_single_relevance_entry(handler, prompt["id"], results[prompt["id"]], *common)
        else:
            found = official._evaluate_single_ast_entry(
                handler, prompt["id"], results[prompt["id"]], truth, *common,
                language=Language[name], return_format=ReturnFormat[name],
            )  # fmt: skip
        valid += found["valid"]
    return valid


def serve(result_dir: str) -> None:
    """Answer each category that comes in by CPU seconds and the number of valid answers."""
    stand_in()
    from bfcl_eval.eval_checker import eval_runner  # noqa: F401 - imported before the clock runs
    from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

    kept: dict = {}
    for number, line in enumerate(sys.stdin):
        category = line.strip()
        if category not in kept:
            prompts = load_dataset_entry(category, include_prereq=False, include_language_specific_hint=False)
            truths = [None] * len(prompts)
            if "relevance" not in category:
                truths = [each["ground_truth"] for each in load_ground_truth_entry(category)]
            [path] = Path(result_dir).rglob(f"BFCL_v4_{category}_result.json")
            results = {each["id"]: each["result"] for each in map(json.loads, path.read_text().splitlines())}
            kept[category] = [pair for pair in zip(prompts, truths, strict=True) if pair[0]["id"] in results], results
        start = time.process_time()
        valid = judge_all(category, *kept[category], number)
        print(json.dumps([time.process_time() - start, valid]), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        score(sys.argv[2], sys.argv[3], sys.argv[4:])
