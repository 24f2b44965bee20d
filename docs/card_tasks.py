"""The cards of docs/categories.md: task, an answer that passes, answers that fail."""

# ruff: noqa: E501 - paragraphs of a page

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.format_sensitivity import PromptVariant
from fctncalling.data.types import FunctionDoc, Task
from fctncalling.evaluation.accepted_answers import accepted_answer
from fctncalling.lab.forge.single_turn import single_turn_entry


class Card(NamedTuple):
    """One category, or several with the same judging."""

    title: str
    what: str
    passes: str
    task: Task | str  # a string names a job with tools in mid-generation
    right: Sequence[str]  # the agent's messages
    wrong: Sequence[tuple[str, Sequence[str]]]  # what is wrong in words, and the messages
    canaries: Sequence[str] = ()  # official categories
    shown: bool = True  # False: the episode is played, and told by another card's


_EMBEDDED = {task.id: task for task in load_tasks(embedded_path("held_out"))}
_STRING = {"type": "string"}


def _forged(category: str) -> Task:
    entry = single_turn_entry(category, 1, 0).entry
    docs = tuple(FunctionDoc(**doc) for doc in entry["function"])
    truth = entry.get("ground_truth")
    return Task(entry["id"], category, entry["question"], docs, ground_truth=truth)


def _accepted(task: Task) -> str:
    answer = accepted_answer(task, "prompting")
    assert answer is not None
    return answer


def _with_other_value(answer: str) -> str:
    """Return a call with another text in its first quotes."""
    return answer.replace('"', '"other', 1)


def _with_first_argument(answer: str) -> str:
    """Return a call with its first argument alone, a text."""
    return re.sub(r'\((\w+="[^"]*").*\)\]$', r"(\1)]", answer)


def _doc(name: str, description: str, **parameters: str) -> FunctionDoc:
    properties = {key: {**_STRING, "description": text} for key, text in parameters.items()}
    schema = {"type": "dict", "properties": properties, "required": list(parameters)}
    return FunctionDoc(name, description, schema)


def _agentic(
    category: str, tool: str, setting: Any, question: str, answer: str, *docs: FunctionDoc
) -> Task:
    message = {"role": "user", "content": question}
    return Task(
        f"{category}_0",
        category,
        [[message]],
        docs,
        ground_truth=[answer],
        initial_config={tool: setting},
        involved_classes=[tool],
    )


_MEMORY = _agentic(
    "memory_kv",
    "MemoryAPI_kv",
    {
        "scenario": "customer",
        "conversations": [["I am Ada. On hot days I always order iced hibiscus tea."]],
    },
    "Which drink do I order when it is hot?",
    "iced hibiscus tea",
    _doc("core_memory_retrieve", "Read an entry of the core memory.", key="Its key."),
    _doc("archival_memory_key_search", "Search the keys of the archive.", query="Words."),
)
_WEB = _agentic(
    "web_search_base",
    "WebSearchAPI",
    {"show_snippet": True},
    "How high is Mount Everest, in metres?",
    "8848.86",
    _doc("search_engine_query", "Search the web.", keywords="Words to search for."),
)
_JAVA, _JAVASCRIPT = _forged("simple_java"), _forged("simple_javascript")
_SALT = _EMBEDDED["simple_python_90000"]
_TAGGED = PromptVariant(return_format="json", tagged=True, doc_format="xml")
_CAT = "[cat(file_name='notes.txt')]"
_ECHO = "[echo(content='bravo', file_name='budget.csv')]"
_TICKET = "[create_ticket(title='monitor', priority=4)]"
_REPAIR = "[resolve_ticket(ticket_id=32, resolution='repair')]"

FURTHER_ERRORS = {
    "agentic:inference_error": "a recorded answer is not one turn of messages",
    "ast_decoder:decoder_wrong_output_format": "the decoded answer is no list of calls",
    "clarify:guessed": "a call guessed an argument that the user had not said yet",
    "clarify:needless_question": "a question where nothing was missing",
    "dict_checker:unclear": "a dict fits no accepted dict; the reason is not one alone",
    "list_dict_checker:unclear": "the same of a list of dicts",
    "multi_turn:inference_error": "a recorded answer has too few or too many turns",
    "simple_function_checker:missing_optional": "an optional argument that may not be left out",
    "type_error:java": "a value does not read as its Java type",
    "type_error:js": "a value does not read as its JavaScript type",
    "type_error:nested": "an item of a list has another type",
    "value_error:dict_key": "a dict has a key too many or too few",
    "value_error:dict_value": "a dict has another value",
    "value_error:list_dict_count": "a list has more or fewer dicts",
    "value_error:list/tuple": "a list has other items",
    "answer:restated": "a symbolic answer that repeats the question, or leaves something to be computed",
    "answer:undecided": "a symbolic answer that could not be compared in time",
}
"""Error types that no example shows -> when they come."""

CARDS = (
    Card(
        "simple_python",
        "One function is offered, and the user wants one call of it.",
        "the one function, every required argument, every value among the accepted ones and of the documented type. "
        "Strings are compared without case, blanks and punctuation.",
        _SALT,
        ["[add_item(item='salt', list='picnic')]"],
        [
            ("another value", ["[add_item(item='sugar', list='picnic')]"]),
            ("a value of another type", ["[add_item(item=3, list='picnic')]"]),
            ("an argument left out", ["[add_item(item='salt')]"]),
            ("an argument too many", ["[add_item(item='salt', list='picnic', amount=1)]"]),
            ("another function", ["[put(item='salt', list='picnic')]"]),
            (
                "two calls",
                ["[add_item(item='salt', list='picnic'), add_item(item='salt', list='picnic')]"],
            ),
            ("words instead of a call", ["I added salt."]),
        ],
        ["simple_python"],
    ),
    Card(
        "multiple",
        "Several functions are offered, one of them serves.",
        "as `simple_python`, with the right function.",
        _EMBEDDED["multiple_90000"],
        ["[play_music(genre='blues', room='cellar')]"],
        [
            ("another of the functions", ["[set_fan(room='cellar', speed='low')]"]),
            ("another value", ["[play_music(genre='jazz', room='cellar')]"]),
            ("nothing", [""]),
        ],
        ["multiple"],
    ),
    Card(
        "parallel",
        "One function, called several times in one answer.",
        "as many calls as are due, in any order, each matching one accepted call.",
        _EMBEDDED["parallel_90000"],
        [
            "[get_weather(city='cairo', day='wednesday', unit='celsius'), "
            "get_weather(city='seoul', day='sunday', unit='celsius')]"
        ],
        [
            ("a call left out", ["[get_weather(city='seoul', day='sunday', unit='celsius')]"]),
            (
                "values exchanged",
                [
                    "[get_weather(city='seoul', day='wednesday', unit='celsius'), "
                    "get_weather(city='cairo', day='sunday', unit='celsius')]"
                ],
            ),
        ],
        ["parallel"],
    ),
    Card(
        "parallel_multiple",
        "Several functions, several calls.",
        "as `parallel`, each call with its own function.",
        _EMBEDDED["parallel_multiple_90000"],
        ["[set_lights(room='studio', level='medium'), add_item(item='onions', list='picnic')]"],
        [
            ("a call left out", ["[set_lights(room='studio', level='medium')]"]),
            (
                "another value",
                [
                    "[set_lights(room='studio', level='low'), add_item(item='onions', list='picnic')]"
                ],
            ),
        ],
        ["parallel_multiple"],
        shown=False,
    ),
    Card(
        "simple_java",
        "As `simple_python`, with a function of Java: the model writes a Java-like call, and values are converted by the "
        "documented Java types. `multiple_java`, `parallel_java` and `parallel_multiple_java` are not in BFCL; they follow "
        "the same rules. Needs the extra `java`.",
        "as `simple_python`, after the conversion.",
        _JAVA,
        [_accepted(_JAVA)],
        [
            ("another value", [_with_other_value(_accepted(_JAVA))]),
            ("an argument left out", [_with_first_argument(_accepted(_JAVA))]),
        ],
        ["simple_java"],
    ),
    Card(
        "simple_javascript",
        "As `simple_java`, with JavaScript; the variants end in `_javascript`. Needs the extra `javascript`.",
        "as `simple_python`, after the conversion.",
        _JAVASCRIPT,
        [_accepted(_JAVASCRIPT)],
        [
            ("another value", [_with_other_value(_accepted(_JAVASCRIPT))]),
            ("an argument left out", [_with_first_argument(_accepted(_JAVASCRIPT))]),
        ],
        ["simple_javascript"],
        shown=False,
    ),
    Card(
        "live_simple, live_multiple, live_parallel, live_parallel_multiple",
        "Questions and functions that users of the leaderboard contributed: longer, in many languages, with messier docs. "
        "The rules are those of the category without `live_`.",
        "as without `live_`.",
        replace(_EMBEDDED["multiple_90001"], id="live_multiple_0", category="live_multiple"),
        ["[book_table(meal='breakfast', people=4, day='friday')]"],
        [
            ("a number as a string", ["[book_table(meal='breakfast', people='4', day='friday')]"]),
            ("another value", ["[book_table(meal='breakfast', people=5, day='friday')]"]),
        ],
        ["live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"],
        shown=False,
    ),
    Card(
        "irrelevance, live_irrelevance",
        "None of the offered functions helps.",
        "any answer without a call that can be read.",
        _EMBEDDED["irrelevance_90000"],
        ["I have no view on turtles."],
        [("a call all the same", ["[start_timer(minutes=1, label='turtle')]"])],
        ["irrelevance", "live_irrelevance"],
    ),
    Card(
        "live_relevance",
        "One of the offered functions helps; what is called with what is not compared. There is no ground "
        "truth: the oracle makes some call.",
        "any call that can be read, of any function. The strict verdict wants one that is offered, with its required arguments, which have to fit their docs and say something of the question: a number, a name or two words.",
        _forged("live_relevance"),
        ["[comparePrices(item='portable chargers')]"],
        [("words instead of a call", ["They cost about 20 pounds."])],
        ["live_relevance"],
    ),
    Card(
        "multi_turn_base",
        "Several user turns on stateful tools. Each step is one message of the agent; a message without calls ends the turn.",
        "at the end of every turn the tools stand as after the ground truth, and every result of the ground truth's calls is "
        "among the results so far. Other calls on the way are allowed.",
        _EMBEDDED["multi_turn_base_90001"],
        ["[ls()]", "These are the files.", _CAT, _ECHO, "It is written."],
        [
            (
                "another state: another text is written",
                ["[ls()]", "Done.", _CAT, _ECHO.replace("bravo", "alpha"), "Done."],
            ),
            ("a result is missing: the file is not read", ["[ls()]", "Done.", _ECHO, "Done."]),
            ("a turn without a call", ["[ls()]", "Done.", "It is written."]),
            ("calls without end", ["[ls()]"] * 22),
        ],
        ["multi_turn_base"],
    ),
    Card(
        "multi_turn_miss_func",
        "As `multi_turn_base`, but a function is held out. In the turn that needs it the agent has to say so; the function is "
        "offered in the next turn.",
        "as `multi_turn_base`; in the turn without the function nothing has to happen, and BFCL does not look at what does.",
        _EMBEDDED["multi_turn_miss_func_90000"],
        [
            "No function reads a file.",
            "[cat(file_name='essay.txt')]",
            "That is what it says.",
            "[mv(source='essay.txt', destination='backup')]",
            "It is in backup.",
        ],
        [
            (
                "the function is not used when it comes",
                ["No.", "No.", "[mv(source='essay.txt', destination='backup')]", "Done."],
            ),
            (
                "another file",
                [
                    "No.",
                    "[cat(file_name='essay.txt')]",
                    "Done.",
                    "[rm(file_name='essay.txt')]",
                    "Done.",
                ],
            ),
        ],
        ["multi_turn_miss_func"],
    ),
    Card(
        "multi_turn_miss_param",
        "As `multi_turn_base`, but the user forgets to say something. The agent has to ask; the next turn says it.",
        "as `multi_turn_base`.",
        _EMBEDDED["multi_turn_miss_param_90001"],
        [
            "Where to?",
            "[mv(source='plan.txt', destination='shared')]",
            "It is there.",
            "[cp(source='budget.csv', destination='shared')]",
            "It is copied.",
        ],
        [
            (
                "guessed instead of asked",
                [
                    "[mv(source='plan.txt', destination='drafts')]",
                    "Done.",
                    "[ls()]",
                    "Done.",
                    "[ls()]",
                    "Done.",
                ],
            ),
        ],
        ["multi_turn_miss_param"],
    ),
    Card(
        "multi_turn_long_context, multi_turn_composite",
        "As `multi_turn_base`, with tools that hold hundreds of further files, messages, flights or orders, which flood the "
        "results. `multi_turn_composite` adds held-out functions and missing parameters. The tables come with `import-bfcl`. "
        "Ten of the 50 composite truths are not Python that parses.",
        "as `multi_turn_base`.",
        replace(
            _EMBEDDED["multi_turn_base_90000"],
            id="multi_turn_long_context_0",
            category="multi_turn_long_context",
        ),
        [_TICKET, "It is reported.", _REPAIR, "It is resolved."],
        [("a turn without the call", [_TICKET, "Done.", "It is resolved."])],
        ["multi_turn_long_context", "multi_turn_composite"],
        shown=False,
    ),
    Card(
        "memory_kv, memory_vector, memory_rec_sum",
        "A question about earlier conversations. The agent reads what was noted in a memory of keys, of vectors, or of one "
        "text, and answers in words. Notes of the earlier conversations are replayed, so no model has to hold them. "
        "`memory_vector` needs the extra `memory-vector`, the others `agentic`.",
        "the last message mentions an accepted answer as a whole word, without case and punctuation.",
        _MEMORY,
        [
            "[archival_memory_key_search(query='drink hot')]",
            "{'answer': 'iced hibiscus tea', 'context': 'noted'}",
        ],
        [
            ("another answer", ["{'answer': 'coffee', 'context': ''}"]),
            ("nothing said", [""]),
        ],
        ["memory_kv", "memory_rec_sum"],
    ),
    Card(
        "web_search_base, web_search_no_snippet",
        "A question that needs pages of the web, with or without snippets in the results. Pages are searched by BM25 in a file "
        "(`FCTNCALLING_SEARCH_CORPUS`; a small one is included), so no network is needed.",
        "as `memory_kv`.",
        _WEB,
        [
            "[search_engine_query(keywords='height of Mount Everest')]",
            "{'answer': '8,848.86', 'context': 'survey'}",
        ],
        [("another answer", ["{'answer': '8,000', 'context': ''}"])],
        ["web_search_base", "web_search_no_snippet"],
    ),
    Card(
        "format_sensitivity",
        "200 entries of other categories under 26 prompts that ask for the calls in another form: Python, JSON or XML, with or "
        "without a tag. `fctncalling.data.format_sensitivity.load_format_sensitivity_tasks` loads them.",
        "as the entry's own category, if the calls are written in the form that was asked for.",
        replace(
            _SALT,
            id=f"format_sensitivity_0:{_TAGGED}:{_SALT.id}",
            extra={"prompt_variant": _TAGGED},
        ),
        [
            '<TOOLCALL>[{"function": "add_item", "parameters": {"item": "salt", "list": "picnic"}}]</TOOLCALL>'
        ],
        [("the usual form", ["[add_item(item='salt', list='picnic')]"])],
    ),
    Card(
        "calculator",
        "One of this project's own jobs (`--env_name calculator`): a tool is called inside the unfinished message, in the "
        "syntax of TRL's text environment. The result is appended, and the model writes on.",
        "the number behind `Result=` is the right one.",
        "calculator",
        ["<request><calculator>44 + 22<call>", "Result=66<submit>"],
        [("another number", ["Result=1<submit>"]), ("no answer", ["I do not know.<submit>"])],
    ),
    Card(
        "python_math",
        "The other job (`--env_name python_math`): the model writes Python between marks, which runs confined.",
        "the last number in the answer is the right one, a whole number from 0 to 999.",
        "python_math",
        ["<PYTHON>print(15 * 5 - 6)</PYTHON>", "The answer is \\boxed{69}."],
        [("another number", ["The answer is \\boxed{999}."]), ("no number", ["I do not know."])],
    ),
)
