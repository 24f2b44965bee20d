"""Tasks of an own API: proven by another judge than their maker, readable, reproducible."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from stub_endpoint import endpoint

from fctncalling.cli.command import main
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.envs import judge, oracle_calls
from fctncalling.envs.handlers.registry import get_handler
from fctncalling.lab.forge import forge_run
from fctncalling.lab.forge.official_guard import digest
from fctncalling.lab.forge.own_api.coverage import Coverage
from fctncalling.lab.forge.own_api.drawn_call import askable_api, frames_of_part
from fctncalling.lab.own_api.english import NUMBERS, ORDINALS
from fctncalling.lab.own_api.kinds import argument_kinds
from fctncalling.lab.own_api.load import load_api
from fctncalling.lab.own_api.words.clauses import ordered_parameter_pairs, said_span
from fctncalling.lab.own_api.words.frames import (
    RequestFrame,
    act_table,
    acts_of_function,
    with_own_frames,
)
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.labelled_values import said_values
from fctncalling.lab.own_api.words.spoken_values import WordedValue, spoken_date, spoken_time
from fctncalling.lab.own_api.words.vocabulary import split_phrases, word_table
from fctncalling.specification.api import OwnApi

EXAMPLES = Path(__file__).parents[2] / "examples" / "your_api"
SHARED = Path(os.environ.get("FCTNCALLING_SHARED", "../shared")) / "apis"
SPECS = (
    "bike_shop:BikeShop",
    str(EXAMPLES / "dance_school.yaml"),
    str(EXAMPLES / "garden_tools.json"),
)


@pytest.fixture(autouse=True)
def examples_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def forged(spec: str, output: Path, *more: str, num_tasks: int = 120) -> list[dict[str, Any]]:
    words = ["forge", "--api", spec, "--num_tasks", str(num_tasks), "--output", str(output)]
    assert main([*words, *more]) == 0
    return entries(output)


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def text_of(entry: dict[str, Any]) -> str:
    return "\n".join(str(turn[0]["content"]) for turn in entry["question"])


def task_of(entry: dict[str, Any]) -> Task:
    docs = [FunctionDoc(d["name"], d["description"], d["parameters"]) for d in entry["function"]]
    category = entry["id"].rpartition("_")[0]
    return Task(
        entry["id"],
        category,
        entry["question"],
        functions=docs,
        ground_truth=entry.get("ground_truth"),
    )


@pytest.mark.parametrize("spec", SPECS)
def test_the_oracle_solves_each_task_and_no_text_is_there_twice(spec: str, tmp_path: Path) -> None:
    tasks = forged(spec, tmp_path / "tasks.jsonl", num_tasks=200)
    assert len(tasks) == 200
    assert len({text_of(each) for each in tasks}) == 200
    handler = get_handler("python_calls")
    judged = 0
    for entry in tasks:
        if entry["id"].startswith(("multiple", "parallel_multiple", "irrelevance")):
            task = task_of(entry)
            [calls] = oracle_calls(task)
            answer = handler.render(calls) if calls else "None of my functions does that."
            assert judge(task, answer).valid, entry
            assert not judge(task, "[no_such_function()]").valid, entry
            judged += 1
    assert judged > 120


def test_a_seed_gives_the_same_bytes_in_three_processes_and_another_seed_other_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forge_run, "digest", lambda text: digest(text) % 999)  # some count as twins
    for name, seed, jobs in (("a", "1", "1"), ("b", "1", "3"), ("c", "2", "1")):
        forged(SPECS[1], tmp_path / name, "--seed", seed, "--jobs", jobs)
    one, two, other = (tmp_path / name for name in "abc")
    for kind in ("", ".ledger.jsonl", ".coverage.md"):
        files = [each.with_name(f"{each.name}{kind}").read_bytes() for each in (one, two)]
        assert files[0] == files[1]
    repeated = [line for line in entries(Path(f"{one}.ledger.jsonl")) if line.get("attempt")]
    assert repeated  # drawn again by the parent
    shared = {text_of(e) for e in entries(one)} & {text_of(e) for e in entries(other)}
    assert len(shared) < 12


def test_held_out_tasks_share_neither_phrases_nor_open_values(tmp_path: Path) -> None:
    tasks = forged(SPECS[0], tmp_path / "tasks.jsonl", "--held_out", "60", num_tasks=300)
    held_out = entries(tmp_path / "tasks.jsonl.held_out.jsonl")
    assert len(held_out) == 60
    frames = [frames_in(tmp_path / f"{name}.ledger.jsonl") for name in LEDGERS]
    assert frames[0]
    assert frames[1]
    assert not frames[0] & frames[1]
    # Those of several turns speak of the things that the class has.
    drawn = [[e for e in each if "function" in e] for each in (tasks, held_out)]
    numbers = [set(re.findall(r"\b[KMW]-\d+\b", json.dumps(each))) for each in drawn]
    assert numbers[1]
    assert not numbers[0] & numbers[1] - {"K-11", "M-501", "W-502"}  # those of the documents


COLOURS = {"type": "string", "enum": ["red", "blue", "green"], "description": "Colour."}


def write_api(path: Path, nouns: str, parameters: str) -> str:
    schema = {"type": "object", "properties": dict.fromkeys(parameters.split(), COLOURS)}
    tools = [{"name": f"find_{noun}", "description": f"Find a {noun}."} for noun in nouns.split()]
    path.write_text(json.dumps([{**tool, "parameters": schema} for tool in tools]))
    return str(path)


def test_coverage_is_what_the_ledger_says_and_tells_how_many_tasks_say_all(tmp_path: Path) -> None:
    api = load_api(write_api(tmp_path / "api.json", "chair lamp", "wood cloth"))
    askable = askable_api(api, argument_kinds(api), {})
    ledger = tmp_path / "tasks.jsonl.ledger.jsonl"
    calls = [["find_chair", ["wood"]], ["find_chair", []], ["find_chair", ["wood"]]]
    told = [{"functions": [function], "said": [said]} for function, said in calls]
    lines = [{"id": f"multiple_{at}", "provenance": each} for at, each in enumerate(told)]
    ledger.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    truth = [{"find_chair": {"wood": ["oak", "oak wood"], "cloth": ["", "felt"]}}]
    task = {"question": [[{"content": "A chair\n of *oak*"}]], "ground_truth": truth}
    (tmp_path / "tasks.jsonl").write_text(f"{json.dumps(task)}\n" * len(calls))
    covered = Coverage(askable, ledger).record()
    assert covered["functions"] == (1, 2)
    assert covered["parameters"] == (1, 4)
    assert covered["kinds_never_drawn"] == []
    # Said in 3 of 5, 1 of 5 and twice 1 of 2 calls, two of them supposed: 14 calls a function.
    silent = [0.4, 0.8, 0.5, 0.5]
    number = next(n for n in range(1, 99) if sum(each**n for each in silent) <= 0.05)
    assert (number, covered["tasks_that_cover"]) == (14, 2 * 14)
    page = Coverage(askable, ledger).page()
    assert "said: 1 of 2 functions and 1 of 4 parameters; about 28 tasks are needed " in page
    assert page.count("- A chair of \\*oak\\* → `find_chair(wood='oak')`\n") == 3
    rows = [row.split(" |") for row in page.splitlines() if row.startswith("| | ")]
    assert len(rows) == 4
    assert all(bool(cells[7].strip()) == (cells[5] == " 0") for cells in rows), page


@pytest.mark.prove
def test_so_many_tasks_as_are_told_say_all_and_an_eighth_of_them_does_not(tmp_path: Path) -> None:
    nouns = "table chair lamp garden boat kitchen bicycle violin ticket letter museum bakery"
    spec = write_api(tmp_path / "api.json", nouns, "wood shape season cloth country metal size age")

    def covered(number: int) -> dict[str, Any]:
        output = str(tmp_path / f"{number}.jsonl")
        words = ["forge", "--api", spec, "--output", output, "--num_tasks", str(number), "--json"]
        with redirect_stdout(StringIO()) as out:
            assert main(words) == 0
        [report] = json.loads(out.getvalue())
        return dict(report["covered"])

    number = covered(60)["tasks_that_cover"]
    assert covered(number)["parameters"] == [96, 96]
    assert covered(number // 8)["parameters"][0] < 96


LEDGERS = ("tasks.jsonl", "tasks.jsonl.held_out.jsonl")


def frames_in(ledger: Path) -> set[str]:
    lines = [line for line in entries(ledger) if "provenance" in line]
    single = [line for line in lines if line["id"].startswith("multiple")]
    return {
        f"{line['provenance']['functions'][0]} {frame}"
        for line in single
        for frame in line["provenance"]["frames"]
    }


@pytest.mark.parametrize("spec", SPECS)
def test_every_value_of_a_truth_is_readable_from_the_words(spec: str, tmp_path: Path) -> None:
    """Read by a reader of its own: texts and numbers stand there, dates in one of their forms."""
    for entry in forged(spec, tmp_path / "tasks.jsonl", "--category", "multiple"):
        text = text_of(entry).lower()
        [call] = entry["ground_truth"]
        for arguments in call.values():
            for name, accepted in arguments.items():
                if accepted[0] != "" and not isinstance(accepted[0], bool | dict | list):
                    assert is_readable(accepted[0], text), (entry["id"], name, accepted, text)


NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()


def is_readable(value: Any, text: str) -> bool:
    if isinstance(value, int | float):
        words = {f"{value:g}", f"{value:g}".lstrip("0")}
        if value == int(value) and 0 <= value < 13:
            words |= {NUMBER_WORDS[int(value)], "a", "an"}
        return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words) or (
            "half an hour" in text or "fortnight" in text or "hour" in text
        )
    if found := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", value):
        year, _, day = found.groups()
        return year in text and (str(int(day)) in text or ORDINALS[int(day) - 1] in text)
    if re.fullmatch(r"\d\d:\d\d", value):
        return bool(re.search(r"\d|noon|" + "|".join(NUMBER_WORDS), text))
    return value.lower().replace("_", " ") in text or len(value) < 12


def test_a_date_and_a_time_say_one_day_and_one_minute() -> None:
    import datetime

    rng = Random(3)
    for _ in range(400):
        day = datetime.date(2026, 1, 1) + datetime.timedelta(days=rng.randrange(900))
        said = spoken_date(day, rng)
        assert str(day.year) in said
        numbers = set(re.findall(r"\d+", said)) - {str(day.year)}
        in_words = day.day <= len(ORDINALS) and f"the {ORDINALS[day.day - 1]} of" in said
        assert in_words or str(day.day) in {number.lstrip("0") for number in numbers}, said
    assert {spoken_time(12, 0, Random(n)) for n in range(60)} >= {"12:00", "noon"}
    assert not any("twelve in the evening" in spoken_time(0, 0, Random(n)) for n in range(60))


def words_of(name: str, properties: dict[str, Any], about: str) -> FunctionWords:
    doc = FunctionDoc(name, about, {"type": "dict", "properties": properties, "required": []})
    kinds = argument_kinds(OwnApi("api", (doc,), "api.json"))
    return FunctionWords(doc, {parameter: kind for (_, parameter), kind in kinds.items()})


def test_two_ends_are_said_together() -> None:
    clock = {"type": "string", "description": "HH:MM, 24 hours."}
    words = words_of("list_shifts", {"start": clock, "end": clock}, "List the shifts.")
    [times] = ordered_parameter_pairs(words)
    hours = {"start": "09:00", "end": "10:30"}
    texts = [said_span(words, times, hours, Random(n)).text for n in range(80)]
    assert any(
        re.search(r"nine\b.* (?:to|until|till|and) half past \w+ in the morning", t) for t in texts
    )


def test_a_listed_value_is_no_noun_of_a_thing() -> None:
    reader = {"type": "string", "description": "Number of the reader's card, such as R-17."}
    method = {"type": "string", "enum": ["cash", "card"]}
    words = words_of("pay_fine", {"reader_id": reader, "method": method}, "Book a payment.")
    assert words.nouns("reader_id") == ("reader",)
    alone = words_of("fines_of", {"reader_id": reader}, "Tell what a reader owes.")
    assert "card" in alone.nouns("reader_id")


def test_phrases_of_acts_have_known_slots() -> None:
    known = {"{x}", "{n}", "{ns}", "{a}", "{who}"}
    for act in act_table():
        for phrase in (p for phrases in act.phrases.values() for p in phrases):
            assert set(re.findall(r"\{\w+\}", phrase)) <= known, phrase


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("rent_bike", "rent"),
        ("return_bike", "take_back"),
        ("extend_rental", "renew"),
        ("cancel_repair", "cancel"),
    ],
)
def test_functions_find_their_acts_by_name_and_description(function: str, expected: str) -> None:
    api = load_api(SPECS[0])
    kinds = argument_kinds(api)
    own = {parameter: kind for (name, parameter), kind in kinds.items() if name == function}
    words = FunctionWords(api.function(function), own)
    assert expected in [act.name for act in acts_of_function(words)]


@pytest.mark.parametrize("spec", SPECS[:2])
def test_written_phrases_change_nothing_until_a_line_of_them_does(
    spec: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine" / "phrases.toml"  # a folder that is not there yet
    ours, read, edited = (tmp_path / name for name in ("ours.jsonl", "read.jsonl", "edited.jsonl"))
    few = ("--held_out", "8", "--category", "multiple")
    tasks = forged(spec, ours, "--write_phrases", str(file), *few, num_tasks=60)
    forged(spec, read, "--phrases", str(file), *few, num_tasks=60)
    for end in ("", ".held_out.jsonl"):
        files = [path.with_name(f"{path.name}{end}") for path in (ours, read)]
        assert files[0].read_bytes() == files[1].read_bytes()
    frames = [
        each["provenance"]["frames"][0] for each in entries(Path(f"{ours}.ledger.jsonl"))[1:-1]
    ]
    [(lost, _)] = Counter(frame.partition(": ")[2] for frame in frames).most_common(1)
    whole = file.read_text(encoding="utf-8")
    assert f'  "{lost}",\n' in whole
    file.write_text(whole.replace(f'  "{lost}",\n', f'  "oblige {lost}",\n'), encoding="utf-8")
    mended = forged(spec, edited, "--phrases", str(file), *few, num_tasks=60)
    assert any("blige" in text_of(each) for each in mended)
    ledger = Path(f"{edited}.ledger.jsonl").read_text(encoding="utf-8")
    assert f': {lost}"' not in ledger
    assert len(tasks) == len(mended)


def test_clauses_say_values_behind_phrases_and_one_value_in_words_of_its_own(
    tmp_path: Path,
) -> None:
    file = tmp_path / "phrases.toml"
    clauses = 'clauses.minutes = ["lasting {} minutes", "20 = for twenty odd minutes"]'
    file.write_text(f'[water_zone]\ndo = ["(drench|soak) {{zone}}"]\n{clauses}\n', encoding="utf-8")
    tasks = forged(SPECS[2], tmp_path / "tasks.jsonl", "--phrases", str(file))
    texts = [text_of(each) for each in tasks if "water_zone" in str(each.get("ground_truth"))]
    assert sum("lasting" in each for each in texts) > 10
    assert {"drench", "soak"} <= {*" ".join(texts).lower().split()}
    assert not any("{}" in each or " = " in each for each in texts)


OBJECT = re.compile(r"\b[A-Z]\w*\(\w+=|object at 0x|\ue010")
LINK_TOOLS = [
    {
        "name": f"{verb}_file",
        "description": f"{verb.capitalize()} a file of a template.",
        "input_schema": {
            "properties": {
                "template_id": {"type": "string", "description": "Such as T-1203."},
                "force_download": {"type": "integer", "default": 1},
                "tags": {"type": "array", "items": {"enum": ["red", "blue"]}},
            },
            "required": ["template_id"],
        },
    }
    for verb in ("link", "remove", "inspect")
]


def test_no_request_says_an_object_whatever_clauses_and_listed_values_meet(tmp_path: Path) -> None:
    spec, kinds, phrases = (tmp_path / name for name in ("api.json", "kinds.toml", "own.toml"))
    spec.write_text(json.dumps(LINK_TOOLS), encoding="utf-8")
    kinds.write_text('["*"]\nforce_download = { values = [0, 1] }\n', encoding="utf-8")
    clauses = 'clauses.force_download = ["0 = shown in the browser", "1 = as a download"]'
    phrases.write_text(f'[link_file]\ndo = ["link {{template_id}}"]\n{clauses}\n', encoding="utf-8")
    files = ("--kinds", str(kinds), "--phrases", str(phrases), "--category", "parallel_multiple")
    tasks = forged(str(spec), tmp_path / "tasks.jsonl", *files, num_tasks=80)
    assert "in the browser" in str(tasks)
    assert not [text for each in tasks if OBJECT.search(text := text_of(each))]
    ledger = (tmp_path / "tasks.jsonl.ledger.jsonl").read_text(encoding="utf-8")
    assert forge_run.OBJECT_SAID not in ledger  # none had to be thrown away
    assert forge_run.text_fault(["a link: WordedValue(text='0 and 1')"]) == forge_run.OBJECT_SAID
    assert forge_run.text_fault(["a link (text = 0) and f(x=1)"]) is None


def test_a_worded_value_is_said_in_its_words_behind_any_phrase() -> None:
    kind = {"type": "string", "enum": ["a_b", "express"], "description": "The sort of link."}
    words = words_of("send_link", {"sort": kind, "days": {"type": "integer"}}, "Send a link.")
    for name in ("sort", "days"):
        for seed in range(40):
            [said] = said_values(words, {name: WordedValue("x or y")}, "do", Random(seed))
            assert "x or y" in said.text
            assert not OBJECT.search(said.text)


def test_lines_of_your_own_are_learned_from_and_alone_where_ours_are_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = [RequestFrame("f", "do", f"our {word}", "doc") for word in NUMBERS]
    own = [RequestFrame("f", "do", f"own {word}", "file") for word in NUMBERS]
    for count in range(1, 9):
        learned, held_out = (
            [f for f in frames_of_part(ours + own[:count], held_out=part) if f.source == "file"]
            for part in (False, True)
        )
        assert len(learned) >= max(1, count / 2)
        assert not {*learned} & {*held_out}
    assert with_own_frames(ours, own) == own
    assert with_own_frames(ours, [own[0], replace(ours[1], source="file")]) == [own[0], ours[1]]
    assert with_own_frames(ours, []) == ours
    file = tmp_path / "phrases.toml"
    file.write_text('[water_zone]\ndo = ["drench {zone}"]\n[read_sensor]\n', encoding="utf-8")
    only = ("--phrases", str(file), "--category", "multiple")
    tasks = forged(SPECS[2], tmp_path / "tasks.jsonl", *only, num_tasks=60)
    texts = [text_of(each) for each in tasks if "water_zone" in str(each.get("ground_truth"))]
    assert texts
    assert all("drench" in text.lower() for text in texts)
    assert "read_sensor: no line is left: ours are used" in capsys.readouterr().err


def test_articles_in_your_own_words_stay_as_you_wrote_them(tmp_path: Path) -> None:
    spec, phrases = tmp_path / "api.json", tmp_path / "own.toml"
    spec.write_text(json.dumps(LINK_TOOLS), encoding="utf-8")
    clauses = 'clauses.tags = ["for an user of {}"]'
    lines = 'do = ["get a url and a apple of {template_id}"]'
    phrases.write_text(f"[link_file]\n{lines}\n{clauses}\n", encoding="utf-8")
    only = ("--phrases", str(phrases), "--category", "multiple")
    text = str(forged(str(spec), tmp_path / "tasks.jsonl", *only, num_tasks=40)).lower()
    assert "get a url and a apple of" in text
    assert "for an user of" in text
    assert "an url" not in text
    assert "\ue010" not in text


def test_files_for_the_whole_api_serve_a_part_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, kinds, phrases = (tmp_path / name for name in ("api.json", "kinds.toml", "own.toml"))
    spec.write_text(json.dumps(LINK_TOOLS), encoding="utf-8")
    kinds.write_text("[link_file]\nforce_download = { values = [0, 1] }\n", encoding="utf-8")
    phrases.write_text('[remove_file]\ndo = ["scrap {template_id}"]\n', encoding="utf-8")
    part = ("--operations", "inspect*", "--kinds", str(kinds), "--phrases", str(phrases))
    forged(str(spec), tmp_path / "tasks.jsonl", *part, num_tasks=5)
    notes = [line for line in capsys.readouterr().err.splitlines() if "passed over" in line]
    assert [note.rpartition(": ")[2] for note in notes] == [
        "link_file.force_download",
        "remove_file",
    ]
    for file, text, told in (
        (
            kinds,
            '[link_file]\nforced = "integer"\n',
            "forced: there is no such parameter",
        ),
        (phrases, '[mow]\ndo = ["mow"]\n', "mow: there is no such function"),
        (phrases, '[remove_file]\ndo = ["scrap {bed}"]\n', "no parameter bed"),
    ):
        was = file.read_text(encoding="utf-8")
        file.write_text(text, encoding="utf-8")
        words = ["forge", "--api", str(spec), *part, "--output", str(tmp_path / "other")]
        assert main(words) == 2
        assert told in capsys.readouterr().err
        file.write_text(was, encoding="utf-8")


def test_an_open_value_takes_the_place_of_the_noun_in_your_phrase(tmp_path: Path) -> None:
    spec, phrases = tmp_path / "api.json", tmp_path / "own.toml"
    spec.write_text(json.dumps(LINK_TOOLS), encoding="utf-8")
    phrases.write_text('[link_file]\ndo = ["scan the file {template_id}"]\n', encoding="utf-8")
    only = ("--phrases", str(phrases), "--category", "clarify")
    tasks = forged(str(spec), tmp_path / "tasks.jsonl", *only, num_tasks=40)
    text = " ".join(map(text_of, tasks)).lower()
    assert re.search(r"scan (?:a|my|one of the) \w+", text)
    assert "scan the file" not in text


def test_no_request_to_decline_is_for_a_copy_of_what_can_be_had() -> None:
    rows = [row for part in word_table("outside").values() for row in part]
    wishes = re.compile(r"\b(?:backup|back up|cop(?:y|ies) of|save|download|keep a)\b.*\{x\}")
    asked = [text for row in rows for text in split_phrases(row["requests"])]
    assert not [text for text in asked if wishes.search(text)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[water_zone]\nclauses.bed = ["in {}"]', "no parameter bed"),
        ('[water_zone]\nclauses.zone = "in {}"', "water_zone.zone: expected a list of phrases"),
        ('[mow]\ndo = ["mow"]', "mow: there is no such function"),
        ('[water_zone]\ndo = ["drench {bed}"]', "no parameter bed"),
        ("[water_zone]\nsing = []", "expected lists named"),
        ("[water_zone", "cannot be read"),
    ],
)
def test_wrong_phrases_end_in_one_line(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "phrases.toml"
    file.write_text(text, encoding="utf-8")
    words = ["forge", "--api", SPECS[2], "--phrases", str(file), "--output", str(tmp_path / "o")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert told in error.splitlines()[-1]


def test_logged_requests_become_tasks_with_the_calls_that_were_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def talk(text: str, *calls: tuple[str, str]) -> str:
        made = [{"function": {"name": name, "arguments": given}} for name, given in calls]
        messages = [
            {"role": "system", "content": "Help."},
            {"role": "user", "content": text},
            {"role": "assistant", "content": None, "tool_calls": made},
        ]
        return json.dumps({"messages": messages})

    logs = tmp_path / "logs.jsonl"
    sprinkle = ("water_zone", '{"zone": "lawn", "minutes": 20}')
    lines = [talk("the lawn, 20 min", sprinkle), talk("the lawn, 20 min", sprinkle)]
    lines += [talk("mow it", ("mow", "{}")), talk("hello")]
    logs.write_text("\n".join(lines), encoding="utf-8")
    forged(SPECS[2], tmp_path / "o.jsonl", "--from_logs", str(logs), num_tasks=40)
    [task] = entries(tmp_path / "o.jsonl.from_logs.jsonl")
    assert text_of(task) == "the lawn, 20 min"
    assert task["id"] == "multiple_0"
    assert task["ground_truth"][0]["water_zone"]["zone"] == ["lawn"]
    [calls] = oracle_calls(task_of(task))
    assert judge(task_of(task), get_handler("python_calls").render(calls)).valid
    told = capsys.readouterr().err
    assert "1 (line 3) calls 'mow', which is not on offer" in told
    assert "1 (line 4) no user message that is answered by calls" in told


def test_tasks_of_several_turns_pass_by_their_calls_and_speak_of_earlier_results(
    tmp_path: Path,
) -> None:
    file = tmp_path / "turns.jsonl"
    tasks = forged(SPECS[0], file, "--category", "multi_turn_base", num_tasks=40)
    output, shared = tmp_path / "played.jsonl", ["--dataset_path", str(file), "--allow_task_tools"]
    assert main(["run", "--agent", "oracle", "--output", str(output), *shared]) == 0
    played = entries(output)
    assert [each["valid"] for each in played] == [True] * 40
    steps = [step for each in played for step in each["steps"]]
    assert all(len(step["calls"]) <= 1 for step in steps)
    assert any("error" in str(step["results"]) for step in steps)  # refused, and gone on from
    assert any(_is_looked_up(each) for each in tasks)
    later = [str(turn[0]["content"]) for each in tasks for turn in each["question"][1:]]
    assert any(re.search(r"\bthat \w+|\bth(?:is|e) (?:very|same) ", text) for text in later)
    silent = tmp_path / "silent.jsonl"
    texts = [[["Done."] for _ in each["question"]] for each in tasks]
    lines = [
        {"category": "multi_turn_base", "form": "prompting", "id": each["id"], "response": text}
        for each, text in zip(tasks, texts, strict=True)
    ]
    silent.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    judged = tmp_path / "judged.jsonl"
    words = ["verdicts", "--data_dir", str(file), "--allow_task_tools", "--input", str(silent)]
    assert main([*words, "--output", str(judged)]) == 0
    assert not any(each["valid"] for each in entries(judged))


def test_the_ledger_counts_values_that_no_words_say_as_read_from_results(tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    tasks = forged(SPECS[0], file, "--category", "multi_turn_base", num_tasks=30)
    lines = entries(Path(f"{file}.ledger.jsonl"))[1:-1]
    unsaid = 0
    for task, line in zip(tasks, lines, strict=True):
        told, calls = line["provenance"], [call for turn in task["ground_truth"] for call in turn]
        assert sum(told["arguments"].values()) == sum(call.count("=") for call in calls)
        numbers = re.findall(r"\b[KMW]-\d+\b", str(calls))
        silent = sum(number not in text_of(task) for number in numbers)
        assert silent <= told["arguments"].get("result", 0)
        assert told["needed_steps"] <= len(calls) - len(task["question"])
        unsaid += silent
    assert unsaid > 5


def _is_looked_up(entry: dict[str, Any]) -> bool:
    """Return whether a turn names a bike by its model alone, and its number is used."""
    for turn, calls in zip(entry["question"], entry["ground_truth"], strict=True):
        if len(calls) == 2 and (found := re.search(r"find_bikes\(model='(\w+)'\)", calls[0])):
            text = turn[0]["content"]
            return found[1] in text and "K-" in calls[1] and "K-" not in text
    return False


def test_paraphrases_are_kept_where_they_lead_back_and_their_log_makes_the_file_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = forged(SPECS[2], tmp_path / "plain.jsonl", num_tasks=40)
    numbers = {text_of(each): index for index, each in enumerate(plain)}

    def reply(_: int, body: dict[str, Any]) -> dict[str, str]:
        asked = body["messages"][-1]["content"]
        if len(body["messages"]) == 1:  # every fourth loses its figures
            text = asked.partition("\n\n")[2]
            changed = re.sub(r"\d", "", text) if numbers[text] % 4 == 0 else text
            return {"content": f"Well then: {changed}"}
        task = task_of(plain[numbers[asked.removeprefix("Well then: ")]])
        [calls] = oracle_calls(task)
        lies = numbers[asked.removeprefix("Well then: ")] % 4 == 1
        right = get_handler("python_calls").render(calls) if calls else "I cannot do that."
        return {"content": "[no_such_function()]" if lies else right}

    with endpoint(reply) as stub:
        reworded = forged(SPECS[2], tmp_path / "a.jsonl", "--paraphrase", stub.url, num_tasks=40)
    assert "kept" in capsys.readouterr().err
    kept = [text_of(each).startswith("Well then: ") for each in reworded]
    for index, (entry, other) in enumerate(zip(plain, reworded, strict=True)):
        asks = entry["id"].startswith("clarify")
        lost = index % 4 == 0 and bool(re.search(r"\d", text_of(entry)))
        assert kept[index] is not (asks or lost or index % 4 == 1), text_of(other)
        assert other.get("ground_truth") == entry.get("ground_truth")
    assert 12 < sum(kept) < 32
    log = str(tmp_path / "a.jsonl.paraphrases.jsonl")
    forged(SPECS[2], tmp_path / "b.jsonl", "--paraphrase", log, num_tasks=40)
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    words = ["forge", "--api", SPECS[2], "--paraphrase", log, "--seed", "9", "--num_tasks", "40"]
    assert main([*words, "--output", str(tmp_path / "c.jsonl")]) == 2
    assert "expected the log of the same command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--held_out 3", "--held_out: belongs to your own API: expected --api SPEC too"),
        ("--paraphrase http://x", "--paraphrase: belongs to your own API: expected --api SPEC too"),
        ("--api bike_shop:BikeShop --held_out -1", "--held_out: got -1, expected at least 0"),
        ("--api bike_shop:BikeShop --dials history", "--dials: belongs to BFCL's categories"),
        ("--api bike_shop:BikeShop --layout bfcl", "--layout: belongs to BFCL's categories"),
    ],
)
def test_flags_of_an_own_api_need_one_and_go_with_no_others(
    flags: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "tasks.jsonl"
    assert main(["forge", *flags.split(), "--output", str(output)]) == 2
    assert told in capsys.readouterr().err
    assert not output.exists()


def test_a_category_that_is_not_made_is_told_with_its_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty_desk.py").write_text(
        "class EmptyDesk:\n"
        "    def _load_scenario(self, scenario: dict, long_context: bool = False) -> None:\n"
        "        self.keys = set(scenario.get('keys', ()))\n"
        "    def lend_key(self, key_id: str) -> dict:\n"
        '        """Lend a key.\n\n        Args:\n            key_id: Such as K-12.\n        """\n'
        "        if key_id not in self.keys:\n"
        "            return {'error': 'no such key'}\n"
        "        return {'lent': self.keys.remove(key_id) or key_id}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = "empty_desk:EmptyDesk"
    assert "multi_turn" not in str(forged(spec, tmp_path / "tasks.jsonl", num_tasks=10))
    told = [line for line in capsys.readouterr().err.splitlines() if "multi_turn" in line]
    assert told == [
        "not made: multi_turn_base: no task after 400 drafts (400 refused by the class); "
        "--scenarios FILE gives states to begin from"
    ]
    states = tmp_path / "states.json"
    states.write_text(json.dumps([{"keys": [f"K-{number}" for number in range(10, 30)]}]))
    more = forged(spec, tmp_path / "more.jsonl", "--scenarios", str(states), num_tasks=10)
    assert "multi_turn" in str(more)
    assert "multi_turn" not in capsys.readouterr().err


def test_coverage_names_what_cannot_be_asked(tmp_path: Path) -> None:
    tools = [
        {
            "name": "cancel_order",
            "description": "Cancel an order.",
            "input_schema": {
                "properties": {"order_id": {"type": "string", "description": "Such as O-12."}},
                "required": ["order_id"],
            },
        },
        {
            "name": "configure",
            "description": "Configure it.",
            "input_schema": {"properties": {"blob": {"type": "object"}}, "required": ["blob"]},
        },
    ]
    spec = tmp_path / "tools.json"
    spec.write_text(json.dumps(tools), encoding="utf-8")
    tasks = forged(str(spec), tmp_path / "tasks.jsonl", num_tasks=40)
    assert not any("configure" in json.dumps(each.get("ground_truth")) for each in tasks)
    page = (tmp_path / "tasks.jsonl.coverage.md").read_text(encoding="utf-8")
    assert "blob is demanded, but" in page


@pytest.mark.parametrize(
    ("spec", "scenarios"),
    [("library_desk:LibraryDesk", "scenarios.json"), ("parcel.yaml", None)],
)
def test_apis_of_others_give_tasks_without_user_code(
    spec: str, scenarios: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"needs {SHARED}: set FCTNCALLING_SHARED")
    monkeypatch.syspath_prepend(str(SHARED))
    more = ["--scenarios", str(SHARED / scenarios)] if scenarios else []
    spec = str(SHARED / spec) if spec.endswith("yaml") else spec
    tasks = forged(spec, tmp_path / "tasks.jsonl", *more, num_tasks=400)
    ours = {text_of(each).lower() for each in tasks}
    for file in SHARED.glob("*/requests_dev.jsonl"):
        assert not ours & {text_of(each).lower() for each in entries(file)}
