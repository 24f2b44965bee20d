"""CPU time of decoding in this tree compared with another tree.

    python benchmarks/templates/decoding.py OTHER [--rounds N]

OTHER is the root of another checkout, such as one of an older commit. Two processes, one a tree,
take turns on the same texts; printed are the medians of the ratios, new to old, a form. Texts that
the trees read differently are left out and counted. Exit code 1 where the ratio over all forms is
above BOUND.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "support" / "handler_vectors.json"
BOUND = 1.1
ROUNDS = 40
SECONDS = 0.02  # of CPU time that a form's texts take in a round, about
WORDS = [
    "I cannot do that: no function fits what you ask for.",
    "The file (of 2 kB) is named report.txt; shall I delete it, or move it to `archive`?",
    "Done. Your flight to Zürich leaves at 7:40 and costs 120 euros.\n\nAnything else?",
    "Let me think about it. " * 20,
]
LONGER = {
    "python_calls": "[look_up(town='Bern', days=3, exact=True), book_room(name='Ada', beds=2)]",
    "hermes_calls": "\n".join(
        f'<tool_call>\n{{"name": "{name}", "arguments": {{"town": "Bern", "days": [1, 2]}}}}\n'
        "</tool_call>"
        for name in ("look_up", "book_room")
    ),
}
"""Texts as models write them, next to the short ones of the vectors."""


def texts_by_form() -> dict[str, tuple[str, list[str]]]:
    """Return the corpus: form -> (handler's name, texts)."""
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    read = {name: [case["text"] for case in vectors[name]] for name in vectors}
    for name, text in LONGER.items():
        read[name] += [text] * 3
    corpus = {name: (name, texts) for name, texts in read.items()}
    corpus |= {f"{name}, detected": ("auto", texts) for name, texts in read.items()}
    thought = "<think>\nThe user wants a table for two.\n</think>\n\n"
    behind = [thought + text for text in read["hermes_calls"]]
    corpus["a thought in front"] = ("hermes_calls", behind)
    return corpus | {"words": ("auto", WORDS), "words, parsed": ("parse", WORDS)}


def serve() -> None:
    """Decode a form's texts n times for each line of input; print the CPU seconds."""
    from fctncalling.envs.episode.parsing import parse_message
    from fctncalling.envs.handlers import get_handler

    def decoder(name: str) -> Callable[[str], Any]:
        if name == "parse":
            auto = get_handler("auto")
            return lambda text: parse_message(auto, text, executes=True).calls
        handler = get_handler(name)
        return lambda text: handler.decode_action(text).calls

    def outcome(decode: Callable[[str], Any], text: str) -> str:
        try:
            return repr(decode(text))
        except ValueError as error:
            return f"error {getattr(error, 'kind', error)}"

    for line in sys.stdin:
        name, texts, times = json.loads(line)
        decode = decoder(name)
        if not times:
            answer: Any = [outcome(decode, text) for text in texts]
        else:
            begun = time.process_time()
            for text in texts * times:
                try:
                    decode(text)
                except ValueError:
                    continue
            answer = time.process_time() - begun
        print(json.dumps(answer), flush=True)


class Decoder:
    """Process that decodes with the package of a tree."""

    def __init__(self, tree: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, cwd=tree, env=environment, stdin=pipe, stdout=pipe, text=True
        )

    def ask(self, name: str, texts: list[str], times: int) -> Any:
        """Return the process's results on texts, or the CPU seconds of n rounds."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([name, texts, times]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(new: Decoder, old: Decoder, rounds: int) -> dict[str, tuple[float, float, int]]:
    """Return form -> the ratio of CPU times, the old one a text, and how many texts are left out.

    The time is in microseconds.
    """
    ratios = {}
    for form, (name, texts) in texts_by_form().items():
        read = zip(texts, new.ask(name, texts, 0), old.ask(name, texts, 0), strict=True)
        same = [text for text, new_result, old_result in read if new_result == old_result]
        times = max(1, round(SECONDS / max(old.ask(name, same, 10) / 10, 1e-6)))
        pairs = [(new.ask(name, same, times), old.ask(name, same, times)) for _ in range(rounds)]
        ratio = statistics.median(new_time / old_time for new_time, old_time in pairs)
        each = statistics.median(old_time for _, old_time in pairs) / times / len(same) * 1e6
        ratios[form] = (ratio, each, len(texts) - len(same))
    return ratios


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("other", nargs="?", type=Path, help="root of the tree to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    if options.other is None or not (options.other / "envs" / "handlers").is_dir():
        parser.error(f"{options.other}: expected the root of a checkout, with envs/handlers")
    new, old = Decoder(ROOT), Decoder(options.other)
    results = compare(new, old, options.rounds)
    new.close()
    old.close()
    for form, (ratio, microseconds, left_out) in results.items():
        print(f"{form:34} {ratio:5.2f} of {microseconds:6.1f} us a text; {left_out} left out")
    overall = statistics.geometric_mean(ratio for ratio, _, _ in results.values())
    print(f"{'all forms':34} {overall:5.2f}; at most {BOUND} is asked for")
    return int(overall > BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
