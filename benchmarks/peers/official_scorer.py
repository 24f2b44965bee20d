"""The official package as a scorer of `fctncalling conformance`.

It runs in its own virtual environment and imports nothing of ours. Tasks and truths are its own
files', found by the ids; of a line it takes the id and the answer's text.

  python -m venv /tmp/official
  /tmp/official/bin/pip install --no-deps bfcl-eval==2026.3.23
  /tmp/official/bin/pip install tree_sitter==0.21.3 tree-sitter-java==0.21.0 \\
      tree-sitter-javascript==0.21.4 mpmath==1.3.0 tenacity overrides filelock python-dotenv tqdm \\
      numpy pandas
  fctncalling conformance --scorer "/tmp/official/bin/python benchmarks/peers/official_scorer.py"

Its tools keep what a process did before (class-level defaults, shared long-context tables), so each
multi-turn answer is judged in a process of its own.
"""

import json
import os
import sys

from official_checkers import entries_of, judge, stand_in


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


def main() -> None:
    """Judge every line of standard input."""
    stand_in()
    from bfcl_eval.eval_checker import eval_runner  # noqa: F401 - before any process is copied

    verdicts = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the package prints
    entries: dict = {}
    for line in sys.stdin:
        record = json.loads(line)
        category = record["category"]
        if category not in entries:
            entries[category] = {
                prompt["id"]: (prompt, truth) for prompt, truth in entries_of(category)
            }
        prompt, truth = entries[category][record["task"]["id"]]

        def valid(category=category, prompt=prompt, truth=truth, record=record) -> bool:
            return judge(category, prompt, truth, record["answer"]["text"], 0)["valid"]

        verdict = in_a_process(valid) if category.startswith("multi_turn") else valid()
        print(json.dumps({"id": record["id"], "valid": verdict}), file=verdicts, flush=True)


if __name__ == "__main__":
    main()
