"""The folder that is shipped: model, model card, prompt, functions, how to serve, a client."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.prompting.compact import compact_docs
from fctncalling.envs.prompting.prompts import (
    docs_for_prompt,
    system_prompt,
    to_openai_tool,
)
from fctncalling.lab.adapt.adapt_settings import AdaptSettings
from fctncalling.lab.adapt.base_model import BaseModel
from fctncalling.lab.adapt.report import AdaptReport, ChoiceRecall, summary
from fctncalling.lab.forge.own_api.offers import FunctionOffers
from fctncalling.lab.own_api import function_choice
from fctncalling.lab.own_api.function_choice import MOST_OFFERED, FunctionChoice
from fctncalling.specification.api import OwnApi, SpecificationError

CLIENT = '''"""Ask the served model; show what its calls would send, or send it (--send)."""
import json, sys, urllib.request
from pathlib import Path
from fctncalling.data.types import FunctionDoc
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.lab.own_api.sender import senders

FORM, OFFERED = "auto", 12
HERE = Path(__file__).parent
URL = "http://localhost:8000/v1/chat/completions"
FUNCTIONS = json.loads((HERE / "functions.json").read_text())

def offer(body):
    """Put the functions that the user's words fit best into a request, where not all are in it."""
    sys.path.insert(0, str(HERE))
    from function_choice import FunctionChoice
    text = "\\n".join(it["content"] for it in body["messages"] if it["role"] == "user")
    shown = [FUNCTIONS[at]["shown"] for at in FunctionChoice(FUNCTIONS, OFFERED).chosen(text)]
    if "tools" in body:
        body["tools"] = shown
    else:
        system = body["messages"][0]
        system["content"] = system["content"].replace("{functions}", "\\n".join(shown))

def ask(request, functions, model=str(HERE)):
    """Return the results of the calls; request: a text, or the messages of a conversation;
    functions: a name -> what runs it."""
    body = json.loads((HERE / "request.json").read_text()) | {"model": model}
    text = [{"role": "user", "content": request}]
    body["messages"] += text if isinstance(request, str) else request
    if FUNCTIONS and "shown" in FUNCTIONS[0]:
        offer(body)
    data = json.dumps(body).encode()
    sent = urllib.request.Request(URL, data, {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(sent))["choices"][0]["message"]
    calls = [(call["function"]["name"], json.loads(call["function"]["arguments"]))
             for call in answer.get("tool_calls") or []]  # of a server that reads calls itself
    docs = [FunctionDoc(it["name"], it["description"], it["parameters"]) for it in FUNCTIONS]
    read = get_handler(FORM).decode(answer.get("content") or "", docs) if not calls else []
    calls += [(call.name, call.arguments) for call in read]
    return [functions[name](**arguments) for name, arguments in calls]

if __name__ == "__main__":
    print(*ask(sys.argv[-1], senders(FUNCTIONS, send="--send" in sys.argv)), sep="\\n")
'''


def write_shipped_model(
    source: Path,
    base: BaseModel,
    report: AdaptReport,
    functions: Sequence[dict[str, Any]],
    settings: AdaptSettings,
) -> None:
    """Write the model's folder; it is there whole or not at all."""
    folder = settings.output / "model"
    if folder.is_dir():
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    # vLLM reads every file of weights in a folder, and knows no value head.
    shutil.copytree(source, part, ignore=shutil.ignore_patterns("value_head*"))
    functions, request = shown_functions(functions, base, settings.offered)
    (part / "functions.json").write_text(json.dumps(functions, indent=1), encoding="utf-8")
    (part / "request.json").write_text(json.dumps(request, indent=1), encoding="utf-8")
    line = f"FORM, OFFERED = {json.dumps(base.handler)}, {settings.offered}"
    client = CLIENT.replace('FORM, OFFERED = "auto", 12', line)
    (part / "client.py").write_text(client, encoding="utf-8")
    shutil.copyfile(function_choice.__file__, part / "function_choice.py")
    (part / "README.md").write_text(_card(base, report, settings), encoding="utf-8")
    _copy_licence(Path(base.name), part)
    os.replace(part, folder)


def shipped_functions(tasks: Path, settings: AdaptSettings) -> list[dict[str, Any]]:
    """Return the functions, each with its origin: names of the specification, how it is sent.

    Those of the tasks where they are not of the specification.
    """
    if settings.tasks is None:
        with suppress(SpecificationError):  # a server that has ended meanwhile
            return functions_with_origins(settings.api(), settings.offered)
    lines = tasks.read_text(encoding="utf-8").splitlines()
    offered = [each for line in lines for each in json.loads(line).get("function", ())]
    return [*{each["name"]: {**each, "origin": {}} for each in offered}.values()]


def functions_with_origins(api: OwnApi, offered: int = MOST_OFFERED) -> list[dict[str, Any]]:
    """Return an API as `functions.json` holds it, its documents as tasks have them."""
    docs = FunctionOffers(api, offered).docs
    return [{**each, "origin": api.origins.get(each["name"], {})} for each in docs]


def choice_recall(
    functions: Sequence[Mapping[str, Any]], tasks: Path, offered: int
) -> ChoiceRecall | None:
    """Return how often the client's choice has all functions that a request's truth calls.

    None where every request is offered all functions.
    """
    choice = FunctionChoice(functions, offered)
    if choice.takes_all:
        return None
    found = asked = 0
    for line in tasks.read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        text = "\n".join(str(each["content"]) for turn in task["question"] for each in turn)
        calls = [each for each in task.get("ground_truth") or () if isinstance(each, dict)]
        chosen = {functions[number]["name"] for number in choice.chosen(text)}
        asked += bool(calls)
        found += bool(calls) and {name for call in calls for name in call} <= chosen
    return ChoiceRecall(found, asked, offered, choice.size)


def shown_functions(
    functions: Sequence[dict[str, Any]], base: BaseModel, offered: int
) -> tuple[Sequence[dict[str, Any]], dict[str, Any]]:
    """Return the functions, and the part of a request that is always the same.

    That is instructions with all functions, or the tools' schemas; where not all are offered, the
    client puts in what is `shown` of each.
    """
    docs = [FunctionDoc(it["name"], it["description"], it["parameters"]) for it in functions]
    docs = docs_for_prompt(docs, "multiple")
    takes_all = FunctionChoice(functions, offered).takes_all
    request: dict[str, Any] = {"temperature": 0, "messages": []}
    shown: Sequence[Any]
    if base.takes_tools:
        shown = [to_openai_tool(each) for each in docs]
        request["tools"] = shown if takes_all else []
    else:
        shown = [compact_docs([each]) for each in docs]
        handler, style = get_handler(base.handler), base.prompt_style
        text = system_prompt(docs if takes_all else [], handler, many_turns=False, style=style)
        content = text if takes_all else f"{text}{{functions}}"
        request["messages"] = [{"role": "system", "content": content}]
    if takes_all:
        return functions, request
    pairs = zip(functions, shown, strict=True)
    return [{**function, "shown": each} for function, each in pairs], request


def _copy_licence(base: Path, part: Path) -> None:
    for name in ("LICENSE", "SOURCE.json"):
        if (base / name).is_file():
            shutil.copyfile(base / name, part / name)


def _card(base: BaseModel, report: AdaptReport, settings: AdaptSettings) -> str:
    folder = settings.output / "model"
    forged = (
        f"Requests were forged from the specification (`fctncalling forge --api {settings.spec}`) "
        "and proven, none written by a language model."
    )
    data = forged if settings.tasks is None else f"Tasks of the user's own: `{settings.tasks}`."
    licence = "that of the base model (LICENSE)"
    source = Path(base.name) / "SOURCE.json"
    origin = source.read_text(encoding="utf-8").strip() if source.is_file() else base.name
    rows = "\n".join(f"- {line}" for line in summary(report).splitlines())
    return f"""---
base_model: {base.name}
tags: [function-calling]
---

# A caller of {settings.spec}

{base.parameters / 1e6:.0f} million parameters ({base.model_type}), taught to call the functions in
`functions.json` and to decline what they cannot do.

## Figures

Solved with nothing forgiven, greedy, 95 % intervals:

{rows}

## Data

{data} Held-out tasks were not trained on. The whole report: `report.html`.

## Base and licence

Licence: {licence}. Base: `{base.name}`, as it says of itself, quantisation included:

```
{origin}
```

## Serve

```
vllm serve {folder} --max-model-len {base.max_episode_tokens}
transformers serve {folder} --port 8000
python client.py "a request in plain words"
```

The fixed part of a request is `request.json`; `client.py` sends it, reads the calls and shows what
they would send to the API; with `--send` it sends them. A request is offered at most
{settings.offered} functions: of more, those that its user's words fit best. Keys come from the
environment, by the variables in `functions.json`; API_URL replaces the server. To measure it:

```
fctncalling run --agent openai:{folder} --base_url http://localhost:8000/v1 \\
    --prompt_style {base.prompt_style} --dataset_path FILE --output answers.jsonl
```
"""
