"""First sentence of a function's description, as an imperative with slots for parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import takewhile

from fctncalling.lab.own_api.english import base_verb, singular, spaced_words
from fctncalling.lab.own_api.words.vocabulary import PREPOSITIONS, split_phrases, word_table

_FRONT = re.compile(
    r"^(?:(?:this|the) (?:tool|function|endpoint|method|operation|api)(?: (?:is used|can be used|"
    r"allows you|lets you|allows|will|may|is there))?(?: to)?|(?:an? )?(?:endpoint|api|function|"
    r"tool|method|operation|call) (?:to|for|that|which)|use (?:this|it) (?:tool |function )?to|"
    r"used to|allows? (?:you |users? |the user )?to|lets? you|can be used to)\s+",
    re.IGNORECASE,
)
_DETERMINERS = r"an?|the|one|some|another|your own|your|its|this|that|given|specified|each|any|all"
_NP = re.compile(rf"\b(?:(?:{_DETERMINERS})\s+)+((?:[a-z'-]+\s+){{0,2}}?)([a-z'-]+)\b", re.I)
_MARKUP = re.compile(r"```.*?(?:```|\Z)|<[^<>]{1,200}>|^\s*[|#].*$", re.DOTALL | re.MULTILINE)
ASIDE = re.compile(r", | that (?:was|is|are|were|has|have) | by (?:their|its|his|words)\b")
"""Where a sentence goes on to explain what nobody would ask for."""
_STATEMENT = re.compile(
    r"[^.!:;]*\?|[a-z-]+(?:,|ing) |"
    r"(?:an? )?[a-z]+ (?:is|are|was|has|had|will|may|must|can|wants|goes|stops)\b",
    re.IGNORECASE,
)
"""Description that tells of something, so that the name has to say what to do."""


def imperative(description: str, name: str) -> str:
    """Return a function's description as an imperative; the name's words if there is none.

    A noun phrase is something to show.
    """
    sentence = first_sentence(description) or spaced_words(name)
    if len(sentence.split()) > 24:
        sentence = " ".join(sentence.split()[:12])
    # "Manually change", "Bulk delete"
    sentence = re.sub(r"(?i)^(?:bulk|batch|[a-z]+ly) (?=[a-z]+ )", "", sentence)
    first, _, rest = sentence.partition(" ")
    if re.match(r"(?:how|what|where|when|which|who|whose|whether)\b", sentence, re.I):
        return f"tell me {_lower(sentence)}"
    if _STATEMENT.match(description.strip()):
        return _of_name(name, first.lower() if spaced_words(name) in known_verbs() else "")
    opens = re.match(r"(?:an?|the|current|all|list of|information|details)\b", sentence, re.I)
    if opens or not _is_verb(first, rest):
        return _of_name(name, _lower(sentence))
    if not re.match(r"[a-z-]+$", first.lower()):
        return sentence
    if base_verb(first) != first.lower():  # "Calls it off and tells everybody"
        rest = re.sub(r"(?<= and )[a-z]+(?= )", _base_of_verb, rest)
    verb = "get" if first.lower() == "returns" else base_verb(first)
    text = f"{verb} {rest}".strip()
    return re.sub(r"^(tell|show) (?=wh|how|if|every|all|about)", r"\1 me ", text)


_LOOKS = frozenset("get post put patch show fetch read view tell list".split())


def _of_name(name: str, thing: str) -> str:
    """Return the verb of a name with a thing, or with its other words; what has none is shown."""
    words = spaced_words(name).split(" ")
    verbs = [each for each in (words[0], words[-1]) if each in known_verbs()]
    verb = verbs[0] if verbs and verbs[0] not in _LOOKS else "show me"
    rest = [each for each in words if each not in verbs[:1]]
    at = 1 if rest[:1] and rest[0] in PARTICLES else 0
    named = " ".join([*rest[:at], *(["the", *rest[at:]] if rest[at:] else [])])
    return f"{verb} {thing or named}".strip()


def object_noun(sentence: str, name: str) -> str:
    """Return the noun of a function's subject, in the singular: "room", "parcel locker".

    What the verb takes, else the last word of the name.
    """
    of_name = spaced_words(name).split()
    if len(of_name) > 1 and of_name[-1] in _ABOUT_THING:
        return singular(of_name[-2])
    rest = sentence.lower().replace("show me ", "show ").partition(" ")[2]
    words = re.findall(r"[a-z'-]+", _BEFORE_NOUN.sub("", f"{rest} "))
    taken = [*takewhile(lambda word: word not in PREPOSITIONS | _NO_OBJECT, words)]
    of_article = re.findall(r"\b(?:an?|one) ([a-z'-]+)", rest)[:1]  # "where a parcel is"
    return singular(" ".join(taken[-2:] or of_article or of_name[-1:]))


_BEFORE_NOUN = re.compile(
    r"^(?:(?:up|out|back|off|down|for|all|an?|the|one|your|own|new|every|more) )+"
)
_NO_OBJECT = frozenset("me based using where how which who whether if it them everything".split())


_NEXT_SENTENCE = re.compile(
    r"(?<=[a-z]) (?=(?:You|This|These|It|Note|Returns?|Within|If|When|Please|The|By default) [a-z])"
)
"""Where a line ends without a mark."""


def first_sentence(description: str) -> str:
    """Return a description's first sentence, without brackets and "this tool is used to"."""
    description = re.sub(
        r"^\s*(?:\[[^\]]*\]|beta:?|preview:)\s+(?=\w)", "", description, flags=re.I
    )
    unmarked = _MARKUP.sub(" ", description)
    unmarked = unmarked if unmarked.strip() else description
    plain = re.sub(r"\s*\([^)]*\)|[`{}[\]]|\*+", "", " ".join(unmarked.split()))
    plain = _NEXT_SENTENCE.split(plain, maxsplit=1)[0]
    # A colon or dash begins a list or an aside; a comma before "with" or a gerund one as well.
    head = re.split(
        r"(?<!incl)(?<!approx)(?<!\bno)(?<=\w)[.!?](?:\s|$)|[:;]\s| - | \u2013 ", plain, maxsplit=1
    )[0]
    return _FRONT.sub("", head).strip().rstrip(".")


PARTICLES = frozenset("up out back off in on down away over".split())


_ARTICLES = frozenset("a an the all your multiple existing".split())


def _is_verb(first: str, rest: str) -> bool:
    """Return whether a sentence begins with a verb, not with a thing: "Beds of a ward"."""
    if not re.match(r"[a-z-]+$", first.lower()):
        return True  # of another language or form: it stays as it is
    of = rest.partition(" ")[0]
    is_thing = of == "of" or (of == "for" and first.lower() in ("offer", "order", "request"))
    # "Snooze an incident": what has an object is a verb; "Force-apply", "Re-enable"
    if of in _ARTICLES or base_verb(first.rpartition("-")[2]) in known_verbs() - {first}:
        return not is_thing
    return base_verb(first) in known_verbs() and not is_thing


@cache
def known_verbs() -> frozenset[str]:
    """Return the verbs that imperatives may begin with."""
    phrases = [
        each for row in word_table("acts").values() for each in split_phrases(row.get("do", ""))
    ]
    table = word_table("operations")
    listed = " ".join([table["more_verbs"], *table["verbs"].values()]).split()
    return frozenset({*listed} | {phrase.split(" ")[0] for phrase in phrases} - _NO_VERBS)


_NO_VERBS = frozenset(
    {"the", "all", "there", "free", "next", "which", "what", "{x}", "{a}", "{ns}", "{who}"}
)


def _base_of_verb(found: re.Match[str]) -> str:
    base = base_verb(found[0])
    return base if base in known_verbs() else found[0]


def with_parameter_slots(sentence: str, nouns: Mapping[str, tuple[str, ...]]) -> str:
    """Return a sentence with slots for noun phrases that name parameters: "Lend {book_id} ..."."""
    taken: set[str] = set()

    def slot(found: re.Match[str]) -> str:
        noun = found[2].lower()
        after = sentence[found.end() :]
        owner = noun.endswith("'s")
        noun = noun.removesuffix("'s")
        if (head := re.match(r"[ -]([a-z]+)", after)) and head[1] in _HEADS:
            return found[0]  # "a parcel locker"
        for parameter, names in nouns.items():
            if parameter not in taken and {noun, singular(noun)} & set(names):
                taken.add(parameter)
                return f"{{{parameter}}}" + ("'s" if owner else "")
        return found[0]

    return _NP.sub(slot, sentence)


_HEADS = frozenset(
    "card account number code id list name address price status history locker type date time "
    "order booking room details".split()
)


_ABOUT_THING = frozenset("of details detail info status history".split())


def _lower(text: str) -> str:
    return text if re.match(r"[A-Z]{2}", text) else text[:1].lower() + text[1:]
