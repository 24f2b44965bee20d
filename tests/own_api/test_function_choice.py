"""Offers of a large API: few functions, the called ones among them, chosen as a client does."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from test_awkward_specifications import document, loaded, operation

from fctncalling.cli.command import main
from fctncalling.data.types import FunctionDoc
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.envs.prompting.prompts import docs_for_prompt, system_prompt
from fctncalling.lab.adapt.base_model import BaseModel
from fctncalling.lab.adapt.shipped_model import (
    CLIENT,
    choice_recall,
    functions_with_origins,
    shown_functions,
)
from fctncalling.lab.forge.own_api.offers import FunctionOffers
from fctncalling.lab.gateway.completion_request import CompletionRequest
from fctncalling.lab.gateway.gateway import with_offered_tools
from fctncalling.lab.own_api import function_choice
from fctncalling.lab.own_api.api_part import part_of_api
from fctncalling.lab.own_api.function_choice import FAMILIES, FunctionChoice, stems
from fctncalling.specification.api import OwnApi, SpecificationError

VERBS = ("get", "list", "create", "cancel", "rename")
NOUNS = "invoice parcel coupon tenant garage recipe ferry violin".split()


def shop() -> dict[str, Any]:
    """Return a document of forty operations, each with a long text on its one parameter."""
    paths: dict[str, Any] = {}
    about = f"Number of it, such as X-104. {'It stands on the label. ' * 40}"
    for noun in NOUNS:
        for verb in VERBS:
            number = {"name": f"{noun}_id", "in": "query", "required": True, "description": about}
            many = verb == "list"
            paths[f"/{noun}/{verb}"] = {
                "get": operation(
                    operationId=f"{verb}_{noun}{'s' * many}",
                    summary=f"{verb.capitalize()} {'the' if many else 'a'} {noun}{'s' * many}.",
                    tags=[noun],
                    parameters=[] if many else [number | {"schema": {"type": "string"}}],
                )
            }
    return document(paths)


BFCL = get_handler("python_calls")


def docs_of(given: list[dict[str, Any]]) -> list[FunctionDoc]:
    return [FunctionDoc(each["name"], each["description"], each["parameters"]) for each in given]


def functions(api: OwnApi) -> list[dict[str, Any]]:
    return FunctionOffers(api, 12).docs


def test_a_task_offers_few_functions_the_called_ones_and_what_a_client_chooses(
    tmp_path: Path,
) -> None:
    api, output = loaded(tmp_path, shop()), tmp_path / "tasks.jsonl"
    words = ["forge", "--api", api.source, "--num_tasks", "192", "--held_out", "24"]
    assert main([*words, "--output", str(output)]) == 0
    choice, docs = FunctionChoice(functions(api)), functions(api)
    how: Counter[tuple[bool, str]] = Counter()
    left_out: Counter[bool] = Counter()
    shared: dict[bool, Counter[tuple[str, ...]]] = {False: Counter(), True: Counter()}
    for task, of, held_out in drawn_tasks(output):
        text = task["question"][0][0]["content"]
        offered = [each["name"] for each in task["function"]]
        prompt = system_prompt(
            docs_for_prompt(docs_of(task["function"]), "multiple"), BFCL, many_turns=False
        )
        assert len(offered) <= 12
        assert len(prompt) + len(text) <= 20_000
        assert {*of["functions"]} <= {*offered}
        alone = {docs[number]["name"] for number in choice.chosen(text)}
        if "left_out" in of:
            assert of["left_out"] not in offered
            assert of["left_out"] in {each.name for each in api.functions}
        elif held_out and of["offered"] == "chosen":
            assert not {*of["functions"]} <= alone or {*offered} == alone
        how[held_out, of["offered"]] += 1
        left_out[held_out] += "left_out" in of
        shared[held_out][tuple(offered)] += 1
    assert min(how.values()) >= 5
    assert len(how) == 4
    assert min(left_out.values()) >= 1
    assert len(left_out) == 2
    # what is learned is read once for many tasks, what measures is as a client has it
    assert sum(times for times in shared[False].values() if times > 8) >= 0.9 * 192
    assert len(shared[True]) >= 20
    assert 64 <= how[False, "chosen"] <= 128


def drawn_tasks(output: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any], bool]]:
    """Yield forged tasks, where they are from, and whether they are held out."""
    for file in (output, output.with_name(f"{output.name}.held_out.jsonl")):
        ledger = file.with_name(f"{file.name}.ledger.jsonl").read_text().splitlines()
        told = [json.loads(line)["provenance"] for line in ledger if "provenance" in line]
        for line, provenance in zip(file.read_text().splitlines(), told, strict=True):
            yield json.loads(line), provenance, file != output


def properties_of(function: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = function["parameters"]["properties"]
    return properties


def test_order_is_that_of_bm25_times_the_share_of_the_name(tmp_path: Path) -> None:
    """Oracle: the formula, word by word over all functions, without an index."""
    docs = functions(loaded(tmp_path, shop()))
    k, b, name_weight = 1.2, 0.75, 4
    bags = [
        [*stems(e["name"])] * name_weight
        + [*stems(e["description"])]
        + [*stems(" ".join(f"{p} {v['description']}" for p, v in properties_of(e).items()))]
        for e in docs
    ]
    mean = sum(map(len, bags)) / len(bags)

    def rarity(stem: str) -> float:
        holders = sum(stem in bag for bag in bags)
        return math.log(1 + (len(bags) - holders + 0.5) / (holders + 0.5))

    def score(number: int, said: set[str]) -> float:
        bag, name = bags[number], {*stems(docs[number]["name"])}
        flat = k * (1 - b + b * len(bag) / mean)
        family = {s for each in FAMILIES if said & {*stems(each)} for s in stems(each)}
        parts = {s: 1.0 if s in said else 0.4 for s in said | family}
        fits = sum(
            part * rarity(s) * bag.count(s) * (k + 1) / (bag.count(s) + flat)
            for s, part in parts.items()
        )
        shared = sum(parts[s] * rarity(s) for s in parts.keys() & name)
        return fits * (1 + shared / sum(map(rarity, name)))

    choice = FunctionChoice(docs)
    for text in ("Cancel my ferry X-3", "which invoices have a label?", "change the violins"):
        scores = [score(number, {*stems(text)}) for number in range(len(docs))]
        assert all(scores[a] >= scores[b] - 1e-9 for a, b in pairwise(choice.ranked(text)))
    for text in ("Cancel my ferry X-3", "Remove the ferry."):
        assert docs[choice.ranked(text)[0]]["name"] == "cancel_ferry"
    assert [*stems("getVATCodes of 3eDDFJIjmd, tries")] == ["get", "vat", "cod", "try"]


@pytest.mark.parametrize("takes_tools", [True, False])
def test_shipped_client_offers_what_the_forge_chose(tmp_path: Path, takes_tools: bool) -> None:
    """Of a conversation, by all that its user said."""
    api = loaded(tmp_path, shop())
    model = BaseModel("m", 1, 2048, takes_tools, "llama", "python_calls")
    given, request = shown_functions(functions_with_origins(api), model, 12)
    (tmp_path / "functions.json").write_text(json.dumps(given))
    module = Path(function_choice.__file__).read_text(encoding="utf-8")
    (tmp_path / "function_choice.py").write_text(module, encoding="utf-8")
    client: dict[str, Any] = {"__file__": str(tmp_path / "client.py"), "__name__": "client"}
    exec(CLIENT, client)
    turns = ["Cancel the ferry X-7.", "And the violin, too."]
    request["messages"] += [{"role": "user", "content": text} for text in turns]
    client["offer"](request)
    docs = functions(api)
    chosen = [docs[number] for number in FunctionChoice(docs).chosen("\n".join(turns))]
    names = [each["name"] for each in chosen]
    assert {"cancel_ferry", "cancel_violin"} <= {*names}
    if takes_tools:
        assert [each["function"]["name"] for each in request["tools"]] == names
    else:
        whole = system_prompt(docs_of(chosen), BFCL, many_turns=False, style="compact")
        assert request["messages"][0]["content"] == whole


def test_recall_of_the_choice_counts_requests_whose_called_functions_it_finds(
    tmp_path: Path,
) -> None:
    docs = functions(loaded(tmp_path, shop()))
    asked = {"Cancel my ferry X-3.": "cancel_ferry", "Please do it now.": "rename_violin", "Hm": ""}
    tasks = [
        {"question": [[{"role": "user", "content": text}]]}
        | ({"ground_truth": [{name: {}}]} if name else {})
        for text, name in asked.items()
    ]
    (tmp_path / "tasks").write_text("".join(f"{json.dumps(each)}\n" for each in tasks))
    recall = choice_recall(docs, tmp_path / "tasks", 12)
    assert recall is not None
    assert recall[:2] == (1, 2)
    assert "12 of 40 functions" in recall.line()
    assert "raise --offered" in recall.line()
    assert choice_recall(docs[:9], tmp_path / "tasks", 12) is None


def test_a_part_of_an_api_is_named_by_operations_and_tags(tmp_path: Path) -> None:
    api = loaded(tmp_path, shop())
    parts = {
        ("get_*",): 8,
        ("cancel_ferry", "list_ferrys"): 2,
        ("GET /ferry/*",): 5,
        ("/ferry/list",): 1,
    }
    for patterns, count in parts.items():
        part = part_of_api(api, patterns)
        assert len(part.functions) == count
        assert part.left_out["not chosen"] == 40 - count
        assert {*part.origins} == {each.name for each in part.functions}
    both = part_of_api(api, ["get_*"], ["ferry", "violin"])
    assert [each.name for each in both.functions] == ["get_ferry", "get_violin"]
    for wrong, cure in (
        ((["get_feri"],), "the nearest is get_ferry"),
        (((), ["vioIin"]), "the nearest is violin"),
        ((["get_ferry"], ["violin"]), "both"),
    ):
        with pytest.raises(SpecificationError, match=cure):
            part_of_api(api, *wrong)


def test_gateway_offers_the_tools_that_its_users_words_fit(tmp_path: Path) -> None:
    tools = tuple(
        {"type": "function", "function": each} for each in functions(loaded(tmp_path, shop()))
    )
    turns = [
        {"role": "user", "content": "Cancel the ferry X-7."},
        {"role": "assistant", "content": "Rename a garage?"},
    ]
    request = CompletionRequest(messages=tuple(turns), tools=tools)
    chosen = with_offered_tools(request, 3).tools
    assert len(chosen) == 3
    assert "cancel_ferry" in {each["function"]["name"] for each in chosen}
    assert chosen == tuple(each for each in tools if each in chosen)
    assert with_offered_tools(request, None) is with_offered_tools(request, 40) is request
