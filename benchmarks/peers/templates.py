"""Call forms compared with real chat templates: every rendered case is read back.

    python benchmarks/peers/templates.py FOLDER [--all]

FOLDER holds templates (*.jinja), such as llama.cpp's models/templates, TRL's wheel and vLLM's
examples. They are rendered by transformers' own renderer, without any weights. Each is then played
as training and the gateway do, on a tokenizer of bytes: prompts beside the template's own, what a
conversation grows to, and the doctor's findings. Exit code 1 where fewer than 95 % of the templates
that write calls are read in every case, or of the prompts equal, or where what is not read is no
fault of the doctor's. --json keeps the counts.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from transformers.utils.chat_template_utils import _compile_jinja_template

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "templates"))  # the parts that play one
from figures import benchmark_parser, write_figures
from played_template import PlayedTemplate, play_template

from fctncalling.data.types import Call, FunctionDoc
from fctncalling.envs.handlers import DecodeError, get_handler, split_thought

NEEDED = 0.95  # of the templates that write calls
NAME, OTHER, THOUGHT = "look_up", "book_room", "Now let me see."
TYPES = {"town": "string", "days": "integer", "flag": "boolean", "tags": "array", "more": "object"}
FIVE: dict[str, Any] = {
    "town": "Ulm",
    "flag": True,
    "days": -3,
    "tags": ["a", "b c"],
    "more": {"k": 1.5, "a": "x"},
}  # in no order of the alphabet
MARKS = '<tool_call> [TOOL_CALLS] </think> "q" {"a": 1} [f(a=1)] <|im_end|>'
CASES: dict[str, list[Call]] = {
    "one call": [Call(NAME, {"town": "Bern", "days": 3})],
    "two calls": [Call(NAME, {"town": "Bern", "days": 3}), Call(OTHER, {"town": "12"})],
    "five types": [Call(NAME, FIVE)],
    "unicode": [Call(NAME, {"town": "Zürich, 東京 🙂", "days": 3})],
    "other marks": [Call(NAME, {"town": MARKS, "days": 3})],
    "thought": [Call(NAME, {"town": "Bern", "days": 3})],
}
CLOSINGS = ("</parameter>", "</arg_value>", "</param>", "</seed:tool_call>", "</tool_call>")
CLOSED = [Call(NAME, {"town": f"{closing} and on", "days": 3}) for closing in CLOSINGS]
Renderer = Callable[..., str]


def tool(name: str) -> dict[str, Any]:
    """Return a tool's schema in OpenAI's form."""
    properties = {key: {"type": kind, "description": key} for key, kind in TYPES.items()}
    properties["tags"]["items"] = {"type": "string"}  # type: ignore[assignment]
    parameters = {"type": "object", "properties": properties, "required": ["town"]}
    function = {"name": name, "description": "Look up.", "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [tool(NAME), tool(OTHER)]
DOCS = [FunctionDoc(tool["function"]["name"], "", tool["function"]["parameters"]) for tool in TOOLS]
QUESTION = {"role": "user", "content": "QUESTION"}
WORDS = {"role": "assistant", "content": "WORDS"}
END = re.compile(r"\s*(?:<\|[^<>|]*\|?>|<EOS>)\s*\Z")  # of a turn, which generation stops at


@dataclass
class Reading:
    """Result of one template: the outcome of each case."""

    name: str
    handler: str = ""
    results: dict[str, str] = field(default_factory=dict)  # read, MISREAD, not rendered
    closings: Counter[str] = field(default_factory=Counter)  # read, refused, MISREAD

    @property
    def verdict(self) -> str:
        """ "read", "FAULT", or the reason why there is no text to read."""
        if not any(result in ("read", "MISREAD") for result in self.results.values()):
            return "writes no calls"
        return "FAULT" if "MISREAD" in self.results.values() else "read"


def assistant(calls: list[Call], thought: str, *, as_text: bool) -> dict[str, Any]:
    """Return an assistant's message with calls; arguments as an object or as JSON text."""
    listed = []
    for number, call in enumerate(calls):
        arguments: Any = dict(call.arguments)
        function = {"name": call.name, "arguments": json.dumps(arguments) if as_text else arguments}
        listed.append({"id": f"call{number:05}", "type": "function", "function": function})
    message = {"role": "assistant", "content": "", "tool_calls": listed}
    return {**message, "reasoning_content": thought, "thinking": thought} if thought else message


def written(render: Renderer, calls: list[Call], thought: str = "") -> Iterator[str]:
    """Yield a template's rendering of calls after its prompt, in each form it accepts."""
    for as_text in (False, True):
        for tools in (TOOLS, []):
            try:
                prompt = render(messages=[QUESTION], tools=tools, add_generation_prompt=True)
                words = render(messages=[QUESTION, WORDS], tools=tools)
                message = assistant(calls, thought, as_text=as_text)
                whole = render(messages=[QUESTION, message], tools=tools)
            except Exception:  # whatever a template's own code raises: it does not render this
                continue
            before, _, tail = words.partition(str(WORDS["content"]))
            starts = (prompt,) if whole.startswith(prompt) else (prompt, before)
            start = max(common_start(start, whole) for start in starts)
            yield END.sub("", whole[start:].removesuffix(tail))


def common_start(prompt: str, whole: str) -> int:
    """Return the index at which two renderings diverge, before a mark that both began."""
    pairs = enumerate(zip(prompt, whole, strict=False))
    size = next((index for index, (left, right) in pairs if left != right), len(prompt))
    start = max(whole.rfind(mark, 0, size) for mark in "<[")
    return start if size < len(prompt) and not set(whole[start:size]) & set(">]\n") else size


def read(text: str) -> list[Call] | None:
    """Parse the calls of a text; None if they cannot be parsed."""
    try:
        return get_handler("auto").decode(text, DOCS)
    except DecodeError:
        return None


def try_template(path: Path) -> Reading:
    """Render every case with a template and read it back."""
    reading = Reading(path.stem)
    try:
        template = _compile_jinja_template(path.read_text(encoding="utf-8"))
    except Exception as error:
        reading.results["one call"] = f"not rendered: {error}"[:80]
        return reading
    marks = {"bos_token": "<BOS>", "eos_token": "<EOS>", "pad_token": "<PAD>", "unk_token": "<UNK>"}
    render = partial(template.render, **marks)
    for case, calls in CASES.items():
        thought = THOUGHT if case == "thought" else ""
        texts = [text for text in written(render, calls, thought) if holds(text, calls)]
        if thought:
            texts = [text for text in texts if thought in text]
        reading.results[case] = "not rendered"
        if texts:
            right = [text for text in texts if matches(text, calls, thought)]
            reading.results[case] = "read" if right else "MISREAD"
    for call in CLOSED if reading.results["one call"] == "read" else ():
        for text in written(render, [call]):
            if holds(text, [call]):
                calls = read(text)
                kind = "refused" if calls is None else "read" if calls == [call] else "MISREAD"
                reading.closings[kind] += 1
                break
    return reading


def holds(text: str, calls: list[Call]) -> bool:
    """Return whether a text names each function as often as it is called."""
    return all(text.count(call.name) >= 1 for call in calls)


def matches(text: str, calls: list[Call], thought: str) -> bool:
    """Whether a text parses to exactly these calls and thought."""
    found = read(text) or []
    listed = [[[each.name, each.arguments] for each in one] for one in (found, calls)]
    exact, given = map(json.dumps, listed)
    if exact != given:  # some templates sort arguments
        given = json.dumps(listed[1], sort_keys=True)
    return exact == given and (not thought or thought in split_thought(text).thought)


def main() -> int:
    """Print the table; return the exit code."""
    parser = benchmark_parser((__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of chat templates, *.jinja")
    parser.add_argument("--all", action="store_true", help="print templates that are read, too")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.glob("**/*.jinja"))
    if not paths:
        parser.error(f"{arguments.folder} holds no *.jinja")
    readings = [try_template(path) for path in paths]
    print("No real weights were run: templates are rendered and read back.")
    for reading in readings:
        if reading.verdict == "FAULT" or reading.closings["MISREAD"] or arguments.all:
            misread = [case for case, result in reading.results.items() if result == "MISREAD"]
            closings = dict(reading.closings)
            print(f"{reading.verdict:15} {reading.name}: {', '.join(misread)} {closings}")
    played = {path.stem: play_template(path.read_text(encoding="utf-8")) for path in paths}
    count = Counter(reading.verdict for reading in readings)
    writing = count["read"] + count["FAULT"]
    share = count["read"] / writing if writing else 0.0
    in_values = sum((reading.closings for reading in readings), Counter[str]())
    print(f"{len(readings)} templates; {count['writes no calls']} write no calls")
    print(
        f"read in every case: {count['read']} of {writing} ({share:.1%}); FAULT: {count['FAULT']}"
    )
    print(f"closing marks inside a value: {dict(in_values)}")
    unread = [reading.name for reading in readings if reading.verdict == "FAULT"]
    is_told = _print_played(played, unread)
    names = ("templates", "write calls", "read in every case", "faulty by themselves")
    counts = (len(readings), writing, count["read"], count["FAULT"])
    write_figures(arguments.json, counts=dict(zip(names, counts, strict=True)))
    return 0 if share >= NEEDED and not in_values["MISREAD"] and is_told else 1


def _print_played(played: dict[str, PlayedTemplate], unread: list[str]) -> bool:
    """Print the results of played templates; return whether they suffice."""
    for name, template in played.items():
        for line in template.faults:
            print(f"{name}: {line}")
    compared = [template for template in played.values() if template.prompts]
    equal = sum(not template.unequal for template in compared)
    print(f"prompts of the gateway: {equal} of {len(compared)} templates write the same")
    growing = [template for template in played.values() if template.grows is not None]
    kinds = Counter((template.append_only, template.grows) for template in growing)
    print(f"append-only: {kinds[True, True]}, wrongly so: {kinds[True, False]}; others: ", end="")
    print(f"{kinds[False, True]} grow in plain talk, {kinds[False, False]} do not")
    silent = [name for name in unread if not played[name].is_told]
    sound = sum(not template.has_fault for template in played.values())
    print(f"doctor: {sound} of {len(played)} sound; ")
    print(f"not read and not told: {', '.join(silent) or 'none'}")
    enough = equal >= NEEDED * len(compared)
    return enough and not silent and not kinds[True, False]


if __name__ == "__main__":
    sys.exit(main())
