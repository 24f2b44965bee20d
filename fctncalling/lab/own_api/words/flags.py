"""Wording of boolean parameters as a person's wishes."""

from __future__ import annotations

import re
from random import Random

from fctncalling.lab.own_api.english import base_verb
from fctncalling.lab.own_api.words.doc_sentence import first_sentence, known_verbs
from fctncalling.lab.own_api.words.function_words import FunctionWords
from fctncalling.lab.own_api.words.vocabulary import (
    PREPOSITIONS,
    spaced_words,
    split_phrases,
    word_table,
)

_TRUE = r"[`'\"]?true[`'\"]?"
_WISH = re.compile(
    rf"(?:(?:optional|boolean|flag|option|a|the|this|if|when|whether|set|pass|use|specify|specifies|"
    rf"value|parameter|be|as|it|indicates|indicating|determines|controls|that|or|not|you|want|"
    rf"is|to|=|{_TRUE})[,:]? )*?(?:{_TRUE}|whether|used|want|flag|option),? (?:or not )?to (.+)"
)
_STATED = re.compile(rf"(?:.*\b(?:whether|if|when)(?: or not)?|{_TRUE} (?:if|when)) (.+)")
_ONLY_SHOWN = re.compile(
    r"only (?:returns?|includes?|shows?|lists?) (\w+ (?:where|that|which|with) [^.]+)"
)
_IF_TRUE = re.compile(rf"(?:if|when)(?: this is)?(?: set)?(?: to)? {_TRUE},? (?:will )?(.+)")
_SHOWN = re.compile(
    r"(.+?) (?:should|will|must|are to|is to) be (?:returned|included|shown|listed)"
)
_DENIED = (
    *((" is ", " is not "), (" are ", " are not "), (" has to ", " need not ")),
    *((" was ", " was not "), (" can ", " cannot "), (" should ", " should not ")),
    *((" has ", " has no "), (" will ", " will not "), (" came back ", " did not come back ")),
)
_ADJECTIVE = re.compile(r"\w+(?:ed|able|ible|ive|al|ic|ate|ent|ant|ary|ous|less|ful|only)$")
MOST_WORDS = 12


def said_flag(words: FunctionWords, name: str, value: bool, rng: Random) -> tuple[str, bool]:
    """Return a phrase for a flag, and whether it is a whole sentence.

    From the table, else from its description, else from its name.
    """
    forms = _of_table(words, name, value) or _of_description(words, name, value)
    text = rng.choice(forms or _of_name(words, name, value))
    return text.removeprefix("~"), not text.startswith("~")


def has_flag_words(words: FunctionWords, name: str) -> bool:
    """Return whether a flag has a wording but "total: yes"."""
    told = _of_table(words, name, True) or _of_description(words, name, True)
    if told:  # "delete a block" of another document is no word of a page's
        return not any(re.search(r"^~?and (?:please )?\w+ an? \w+$", each) for each in told)
    spoken = re.sub(r"^(?:is|should|do|does|be) ", "", spaced_words(name))
    is_state = re.search(r"(?:ed|able|ible|ive|only)$", spoken) is not None
    return is_state or (" " in spoken and spoken.split(" ")[0] not in PREPOSITIONS)


def _of_table(words: FunctionWords, name: str, value: bool) -> list[str]:
    """Return the table's forms for a name; of an API's hundreds for a whole name alone."""
    table, spoken = word_table("value_words")["flags"], spaced_words(name)
    named = [re.sub(r"^(?:is|has) ", "", spoken)] if words.method else spoken.split()
    rows = [table[word] for word in named if word in table]
    return [form for row in rows for form in split_phrases(row["yes" if value else "no"])]


def _of_description(words: FunctionWords, name: str, value: bool) -> list[str]:
    told = first_sentence(words.kinds[name].description).split(", ")
    low = told[1] if len(told) > 1 and told[0].lower() in ("optional", "boolean") else told[0]
    low = ", ".join([low, *told[1:2]]) if re.match(rf"(?:if|when)[^,]*{_TRUE}$", low, re.I) else low
    low = f"{low[:1].lower()}{low[1:]}".replace("`", "")
    if shown := _ONLY_SHOWN.match(low):
        return [f"~only {shown[1]}"] if value else []
    if found := _WISH.match(low):
        things = "|".join(map(re.escape, words.thing_nouns()))  # "archive a block": the one named
        return _wished(re.sub(rf"\b(?:an?|the|this) (?:{things})(?=\.?$)", "it", found[1]), value)
    consequence = _IF_TRUE.match(low)
    stated = consequence or _STATED.match(low)
    clause = stated[1] if stated else low
    first = clause.split(" ")[0]
    if not stated or consequence:
        is_verb = base_verb(first) in known_verbs() and " " in clause
        return _wished(f"{base_verb(first)}{clause[len(first) :]}", value) if is_verb else []
    if shown := _SHOWN.match(clause):
        return [f"~with {shown[1]}", f"~{shown[1]} included"] if value else [f"~without {shown[1]}"]
    return _stated(words, clause, value)


def _wished(wish: str, value: bool) -> list[str]:
    wish = re.sub(r" (?:or not|otherwise|by default)\b.*", "", wish)
    if len(wish.split()) > MOST_WORDS or "true" in wish or "false" in wish:
        return []
    return [f"~and {wish}", f"~and please {wish}"] if value else [f"do not {wish}"]


def _stated(words: FunctionWords, clause: str, value: bool) -> list[str]:
    most = 7 if words.method else MOST_WORDS  # a longer one is a document's, no person's
    if len(clause.split()) > most or re.search(r"\b(?:true|false|not|parameter)\b", clause):
        return []
    denied = [(verb, no) for verb, no in _DENIED if verb in f" {clause} "]
    if not denied:
        return []
    verb, no = denied[0]
    if verb == " can ":
        return []  # what something may do is no wish
    denial = re.sub(r"\bhas no an? ", "has no ", f" {clause} ".replace(verb, no, 1))
    return [clause] if value else [denial.strip()]


def _of_name(words: FunctionWords, name: str, value: bool) -> list[str]:
    spoken = re.sub(r"^(?:is|should|do|does|be) ", "", spaced_words(name))
    first, _, rest = spoken.partition(" ")
    if first in ("include", "with", "show", "has", "need", "needs", "return", "expand") and rest:
        rest = rest.replace(" only", "")
        return [f"~with {rest}", f"~{rest} included"] if value else [f"~without {rest}"]
    if first == "only" and rest:
        return [f"~only the {rest} ones"] if value else [f"not only the {rest} ones"]
    if first in known_verbs() and first == base_verb(first) and not _ADJECTIVE.match(first):
        wish = f"{first} {rest or 'it'}"
        return [f"~and {wish}"] if value else [f"do not {wish}"]
    changes = words.operation is not None and words.operation.sort in ("make", "change")
    if changes and not rest and _ADJECTIVE.match(spoken):
        return [f"make it {spoken}"] if value else [f"it should not be {spoken}"]
    on, yes = ("on", "yes") if value else ("off", "no")
    if words.method:
        is_switch = spoken in ("state", "status", "value", "enabled", "active", "on")
        if rest and _ADJECTIVE.match(spoken.split(" ")[-1]):  # "email required"
            return [f"~with {spoken}"] if value else [f"~without {spoken}"]
        return [f"turn it {on}"] if is_switch else [f"~with {spoken} turned {on}"]
    return [f"~with {spoken} turned {on}", f"~{spoken}: {yes}", f"{spoken} should be {on}"]
