"""The official package's side of `compare.py`: the class, spelling and checker of each model.

Runs in its own virtual environment (`../../checkers.py` tells how it is made), imports nothing of
ours. Reads JSON Lines {"model", "path", "category", "handler", "fc", "underscores"} and writes, for
each, "model category" and one digit an answer, 1 where it is valid; "-" where the package has no
such class any more. What the classes import from vendors is replaced by a stand-in: their decoders
need none of it.

  python official_decoders.py record tests/support/decoder_vectors.json

writes the calls that each class with a decoder of its own reads in the answers of that file.
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
import types
from unittest.mock import MagicMock

os.environ["BFCL_PROJECT_ROOT"] = tempfile.mkdtemp()


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loader of modules that are not installed."""

    def find_spec(self, name, path=None, target=None):
        """Return a specification of any module; asked last, when nobody else has it."""
        if name.startswith("bfcl_eval"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        """Return a module with mocks for all names, classes for those used as bases."""
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: (
            type(name, (Exception,), {}) if name[:1].isupper() else (MagicMock())
        )
        return module

    def exec_module(self, module):
        """Return without executing anything."""


def classes() -> dict:
    """Return the handlers' classes by name."""
    from bfcl_eval import model_handler
    from bfcl_eval.model_handler.base_handler import BaseHandler

    found = {}
    for each in pkgutil.walk_packages(model_handler.__path__, "bfcl_eval.model_handler."):
        module = importlib.import_module(each.name)
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, BaseHandler):
                found[name] = value
    return found


def handler_of(cls: type, fc: bool) -> object:
    """Return a handler as far as its decoders need one."""
    handler = object.__new__(cls)
    handler.is_fc_model = fc
    return handler


def record(path: str) -> None:
    """Write what classes read in the answers of a file: [index, calls, call strings] of each.

    Answers in which a class reads neither are left out.
    """
    from bfcl_eval.constants.enums import ReturnFormat
    from bfcl_eval.utils import is_empty_output

    known = classes()
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    for name, found in vectors["read"].items():
        handler = handler_of(known[name.split()[0]], name.endswith(" fc"))
        found.clear()
        for index, answer in enumerate(vectors["answers"]):
            calls = strings = None
            # whatever a decoder raises, the package takes for no call
            with contextlib.suppress(Exception):
                calls = handler.decode_ast(answer, ReturnFormat.PYTHON, False)
                calls = None if is_empty_output(calls) else calls
            with contextlib.suppress(Exception):
                strings = handler.decode_execute(answer, False) or None
            if calls is not None or strings is not None:
                found.append([index, calls, strings])
    lines = [f"  {json.dumps(answer)}" for answer in vectors["answers"]]
    read = [
        f"  {json.dumps(name)}: [\n"
        + ",\n".join(f"   {json.dumps(item)}" for item in found)
        + "\n  ]"
        for name, found in vectors["read"].items()
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write('{\n "answers": [\n' + ",\n".join(lines) + "\n ],\n")
        file.write(' "read": {\n' + ",\n".join(read) + "\n }\n}\n")


def judge_files() -> None:
    """Judge all answers of the files named on standard input."""
    known = classes()
    from bfcl_eval.constants.enums import Language, ReturnFormat
    from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING
    from bfcl_eval.eval_checker import eval_runner as official
    from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

    tasks = {}
    for request in map(json.loads, sys.stdin):
        model, category = request["model"], request["category"]
        if request["handler"] not in known:
            print(model, category, "-", flush=True)
            continue
        handler = handler_of(known[request["handler"]], request["fc"])
        MODEL_CONFIG_MAPPING["m"] = types.SimpleNamespace(underscore_to_dot=request["underscores"])
        if category not in tasks:
            entries = load_dataset_entry(
                category, include_prereq=False, include_language_specific_hint=False
            )
            truths = [None] * len(entries)
            if "relevance" not in category:
                truths = [entry["ground_truth"] for entry in load_ground_truth_entry(category)]
            tasks[category] = {e["id"]: (e, t) for e, t in zip(entries, truths, strict=True)}
        bits = []
        language = {"simple_java": "JAVA", "simple_javascript": "JAVASCRIPT"}.get(
            category, "PYTHON"
        )
        with open(request["path"], encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                prompt, truth = tasks[category][record["id"]]
                head = (handler, record["id"], record["result"])
                if "relevance" in category:
                    verdict = official._evaluate_single_relevance_entry(
                        *head, dict(prompt), "m", category
                    )
                else:
                    verdict = official._evaluate_single_ast_entry(
                        *head,
                        truth,
                        dict(prompt),
                        "m",
                        category,
                        language=Language[language],
                        return_format=ReturnFormat[language],
                    )
                bits.append("1" if verdict["valid"] else "0")
        print(model, category, "".join(bits), flush=True)


def main() -> None:
    """Record, or judge."""
    import pandas  # noqa: F401  (it probes what is installed, which a stand-in would say of all)

    sys.meta_path.append(StandIn())
    if sys.argv[1:2] == ["record"]:
        record(sys.argv[2])
    else:
        judge_files()


main()
