"""BFCL categories, from entry ids and file names."""

from __future__ import annotations

import re
from functools import lru_cache

from fctncalling.data.errors import TaskError

AST = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
RELEVANCE = ("irrelevance", "live_irrelevance", "live_relevance")
MULTI_TURN = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
    "multi_turn_composite",
)
AGENTIC = (
    "web_search",
    "web_search_base",
    "web_search_no_snippet",
    "memory",
    "memory_kv",
    "memory_vector",
    "memory_rec_sum",
    "memory_prereq",
)
RETIRED = (
    "exec_simple",
    "exec_multiple",
    "exec_parallel",
    "exec_parallel_multiple",
    "rest",
    "sql",
    "chatable",
)
EXECUTABLE = "executable_"
"""What the retired categories that are run began with in BFCL v1."""
# Not in BFCL: its single-turn shapes in its other two languages, named so that "java" in the name
# tells the language.
LANGUAGE_VARIANTS = tuple(
    f"{shape}_{language}"
    for shape in ("multiple", "parallel", "parallel_multiple")
    for language in ("java", "javascript")
)
# Not in BFCL either: a single request that may leave a value open, which comes when asked for.
CLARIFY = ("clarify", "clarify_missing", "clarify_ambiguous", "clarify_complete")
CATEGORIES = (*AST, *RELEVANCE, *MULTI_TURN, *AGENTIC, *RETIRED, *LANGUAGE_VARIANTS, *CLARIFY)

# Names until BFCL v3, when Python was not yet one language of three; and the bare kind.
ALIASES = {
    "simple": "simple_python",
    "java": "simple_java",
    "javascript": "simple_javascript",
    "multi_turn": "multi_turn_base",
}
RESULT_NAMES = {
    **ALIASES,
    "relevance": "irrelevance",
    "multiple_function": "multiple",
    "parallel_function": "parallel",
    "parallel_multiple_function": "parallel_multiple",
}
"""Names in result files and their ids, of any version since the first -> those of BFCL v4."""
WITHOUT_ANSWER = frozenset({*RELEVANCE, "memory_prereq", "chatable"})
"""Categories whose entries have no possible answer: none is scored against one."""

LANGUAGES = ("python", "java", "javascript")
"""Languages whose literals the arguments of a category are written in."""

KIND_OF_NAME_PART = {
    "exec_": "unsupported",  # retired: judged by running them
    "clarify": "clarify",
    "multi_turn": "multi_turn",
    "memory": "agentic",
    "web_search": "agentic",
    "irrelevance": "irrelevance",  # before "relevance", which its name holds too
    "relevance": "relevance",
    "parallel": "parallel",  # before "multiple": parallel_multiple is checked as parallel
    "multiple": "multiple",
    "simple": "simple",
}
"""Part of a category's name -> kind of check; the first part in it decides, as in BFCL."""

_CATEGORY_OF_NAME = {**{category: category for category in CATEGORIES}, **ALIASES}
_ID = re.compile(r"(?P<name>[A-Za-z_-]+)[_-]\d.*", re.DOTALL)
_FILE = re.compile(r"(?:BFCL_v\d+_)?(?P<name>[A-Za-z_-]+)\.jsonl?")


def v4_category_name(name: str) -> str:
    """Return BFCL's v4 name of a category, given the name of any version.

    Raises TaskError for an unknown one.
    """
    category = _CATEGORY_OF_NAME.get(name.replace("-", "_"))
    if category is None:
        raise TaskError(
            f'"{name}" is no known category: expected one of ' + ", ".join((*CATEGORIES, *ALIASES))
        )
    return category


def category_of_id(entry_id: str, file_name: str | None = None) -> str:
    """Return the category (BFCL v4) of an entry's id, or else of its file's name.

    An id is a category, `_` and an index that begins with a digit: `simple_python_17`,
    `live_simple_19-3-15`, `memory_0-customer-0`. Version 3 names (`java_0`) and hyphens
    (`multi-turn_base_3`) mean the same categories. Raises TaskError, naming the known categories,
    where neither the id nor the file name speaks of one.
    """
    for match in (_ID.fullmatch(entry_id), _FILE.fullmatch(file_name or "")):
        name = match["name"].replace("-", "_") if match else ""
        if name in _CATEGORY_OF_NAME:
            return _CATEGORY_OF_NAME[name]
    speaker = f'id "{entry_id}"' + (
        f' and file name "{file_name}" speak' if file_name else " speaks"
    )
    raise TaskError(
        f'{speaker} of no known category: expected <category>_<index> (or a field "category"), '
        "with a category out of " + ", ".join((*CATEGORIES, *ALIASES))
    )


class UnsupportedCategory(ValueError):
    """Error of a category that has no checker here."""


@lru_cache(maxsize=256)
def category_kind(category: str) -> str:
    """Return the kind of check of a category: which checker judges it.

    Simple, multiple, parallel, relevance, irrelevance, clarify, multi_turn or agentic. Raises
    UnsupportedCategory, naming it and what is supported, where there is none.
    """
    kinds = (kind for part, kind in KIND_OF_NAME_PART.items() if part in category)
    if (kind := next(kinds, "unsupported")) != "unsupported":
        return kind
    supported = dict.fromkeys(KIND_OF_NAME_PART.values())
    supported.pop("unsupported")
    raise UnsupportedCategory(
        f'no checker judges category "{category}": expected one of the kinds '
        f"{', '.join(supported)}, with arguments in {', '.join(LANGUAGES)}"
    )


@lru_cache(maxsize=256)
def category_language(category: str) -> str:
    """Return the language of a category's arguments: python, java or javascript."""
    return next((language for language in ("javascript", "java") if language in category), "python")
