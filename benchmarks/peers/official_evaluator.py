"""The official evaluator's side of `official_scores.py`, run in a separate virtual environment.

`official_evaluator.py evaluate RESULTS SCORES CATEGORY...` evaluates a result tree as the official
command does. `official_evaluator.py aggregate SCORES` makes the leaderboard's tables of the score
files that lie there.
"""

import json
import os
import sys
import tempfile
import types
from pathlib import Path

os.environ["BFCL_PROJECT_ROOT"] = tempfile.mkdtemp()

TOOL_CALLS = "called"
"""How the name of a model begins that answers by tool calls."""


class Prompted:
    """Decoder of a prompted model's texts."""

    def decode_ast(self, result, language, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import default_decode_ast_prompting

        return default_decode_ast_prompting(result, language, has_tool_call_tag)

    def decode_execute(self, result, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import default_decode_execute_prompting

        return default_decode_execute_prompting(result, has_tool_call_tag)


class Calling:
    """Decoder of lists of {name: arguments}, as in the handlers of OpenAI's models."""

    def decode_ast(self, result, language, has_tool_call_tag=False):
        return [{name: json.loads(call[name])} for call in result for name in [next(iter(call))]]

    def decode_execute(self, result, has_tool_call_tag=False):
        from bfcl_eval.model_handler.utils import convert_to_function_call

        return convert_to_function_call(result)


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


def evaluate(results: str, scores: str, categories: list[str]) -> None:
    """Evaluate every model of a result tree; tasks without an answer do not count."""
    from bfcl_eval.eval_checker import eval_runner

    eval_runner.get_handler = lambda name: Calling() if name.startswith(TOOL_CALLS) else Prompted()
    eval_runner.runner(None, categories, Path(results), Path(scores), allow_missing=True)


def aggregate(scores: str) -> None:
    """Write the leaderboard's tables from the headers of score files."""
    from bfcl_eval.eval_checker import eval_runner_helper as helper

    table: dict = {}
    helper.update_leaderboard_table_with_local_score_file(table, Path(scores))
    helper.generate_leaderboard_csv(table, Path(scores))


if __name__ == "__main__":
    stand_in()
    if sys.argv[1] == "evaluate":
        evaluate(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        aggregate(sys.argv[2])
