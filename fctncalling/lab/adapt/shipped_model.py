"""The folder that is shipped: model, model card, prompt, functions, how to serve, a client."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.prompting.prompts import system_prompt, to_openai_tool
from fctncalling.lab.adapt.adapt_settings import AdaptSettings
from fctncalling.lab.adapt.base_model import BaseModel
from fctncalling.lab.adapt.report import AdaptReport, summary
from fctncalling.lab.own_api.load import load_api
from fctncalling.specification.api import OwnApi, SpecificationError

CLIENT = '''"""Ask the served model; show what its calls would send, or send it (--send)."""
import json, sys, urllib.request
from pathlib import Path
from fctncalling.data.types import FunctionDoc
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.lab.own_api.sender import senders

FORM = "auto"
HERE = Path(__file__).parent
URL = "http://localhost:8000/v1/chat/completions"
FUNCTIONS = json.loads((HERE / "functions.json").read_text())

def ask(request, functions, model=str(HERE)):
    """Return the results of the calls; functions: a name -> what runs it."""
    body = json.loads((HERE / "request.json").read_text()) | {"model": model}
    body["messages"].append({"role": "user", "content": request})
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
    source: Path, base: BaseModel, report: AdaptReport, tasks: Path, settings: AdaptSettings
) -> None:
    """Write the model's folder; it is there whole or not at all."""
    folder = settings.output / "model"
    if folder.is_dir():
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    # vLLM reads every file of weights in a folder, and knows no value head.
    shutil.copytree(source, part, ignore=shutil.ignore_patterns("value_head*"))
    task = _first_task(tasks)
    functions = _functions(task, settings)
    (part / "functions.json").write_text(json.dumps(functions, indent=1), encoding="utf-8")
    (part / "request.json").write_text(json.dumps(_request(task, base), indent=1), encoding="utf-8")
    client = CLIENT.replace('FORM = "auto"', f"FORM = {json.dumps(base.handler)}")
    (part / "client.py").write_text(client, encoding="utf-8")
    (part / "README.md").write_text(_card(base, report, settings), encoding="utf-8")
    _copy_licence(Path(base.name), part)
    os.replace(part, folder)


def _functions(task: Mapping[str, Any], settings: AdaptSettings) -> list[dict[str, Any]]:
    """Return the functions, each with its origin: names of the specification, how it is sent.

    Those of a task where it is not of the specification.
    """
    if settings.tasks is None:
        with suppress(SpecificationError):  # a server that has ended meanwhile
            return functions_with_origins(load_api(settings.spec, scenarios=settings.scenarios))
    return [{**each, "origin": {}} for each in task["function"]]


def functions_with_origins(api: OwnApi) -> list[dict[str, Any]]:
    """Return an API as `functions.json` holds it."""
    return [
        {
            "name": each.name,
            "description": each.description,
            "parameters": each.parameters,
            "origin": api.origins.get(each.name, {}),
        }
        for each in api.functions
    ]


def _first_task(tasks: Path) -> Mapping[str, Any]:
    """Return the task that offers most functions."""
    found = [json.loads(line) for line in tasks.read_text(encoding="utf-8").splitlines()]
    best: Mapping[str, Any] = max(found, key=lambda each: len(each.get("function", ())))
    return {"function": [], **best}


def _request(task: Mapping[str, Any], base: BaseModel) -> dict[str, Any]:
    """Return the part of a request that is always the same: instructions, or the tools' schemas."""
    docs = [
        FunctionDoc(each["name"], each["description"], each["parameters"])
        for each in task["function"]
    ]
    if base.takes_tools:
        tools = [to_openai_tool(each) for each in docs]
        return {"temperature": 0, "messages": [], "tools": tools}
    text = system_prompt(docs, get_handler(base.handler), many_turns=False, style=base.prompt_style)
    return {"temperature": 0, "messages": [{"role": "system", "content": text}]}


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
they would send to the API; with `--send` it sends them. Keys come from the environment, by the
variables in `functions.json`; API_URL replaces the server. To measure what is served:

```
fctncalling run --agent openai:{folder} --base_url http://localhost:8000/v1 \\
    --prompt_style {base.prompt_style} --dataset_path FILE --output answers.jsonl
```
"""
