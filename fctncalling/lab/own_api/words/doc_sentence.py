"""First sentence of a function's description, as an imperative with slots for parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
_PLAIN_VERB = re.compile(r"^[a-z-]+$")


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


def imperative(description: str, name: str) -> str:
    """Return a function's description as an imperative; the name's words if there is none.

    A noun phrase is something to show.
    """
    sentence = first_sentence(description)
    if not sentence or len(sentence.split()) > 24:
        sentence = " ".join(sentence.split()[:12]) or spaced_words(name)
    # "Manually change", "Bulk delete"
    sentence = re.sub(r"(?i)^(?:bulk|batch|[a-z]+ly) (?=[a-z]+ )", "", sentence)
    first, _, rest = sentence.partition(" ")
    if re.match(r"(?:how|what|where|when|which|who|whose|whether)\b", sentence, re.I):
        return f"tell me {_lower(sentence)}"
    if re.match(r"[^.!:;]*\?", description.strip()):
        has_verb = spaced_words(name).split(" ")[0] in known_verbs()
        return (has_verb and _of_name(name, "")) or f"tell me about the {spaced_words(name)}"
    if first.lower() in ("we", "you", "they", "it", "this", "use"):
        return _of_name(name, "") or sentence
    if _STATEMENT.match(sentence) or re.match(r"\w+, \w+", sentence):
        return _of_name(name, first.lower()) or sentence
    opens = re.match(r"(?:an?|the|current|all|list of|information|details)\b", sentence, re.I)
    if (verb := _of_gerund(first)) and re.match(rf"(?:{_DETERMINERS}|several|new)\b", rest):
        return f"{verb} {rest}".strip()
    if opens or not _is_verb(first, rest):
        return f"{_verb_of_name(name)} {_lower(sentence)}"
    if not _PLAIN_VERB.match(first.lower()):
        return sentence
    if base_verb(first) != first.lower():  # "Calls it off and tells everybody"
        rest = re.sub(r"(?<= and )[a-z]+(?= )", _base_of_verb, rest)
    verb = "get" if first.lower() == "returns" else base_verb(first)
    text = f"{verb} {rest}".strip()
    return re.sub(r"^(tell|show) (?=wh|how|if|every|all|about)", r"\1 me ", text)


_STATEMENT = re.compile(
    r"(?:(?:some(?:body|one|thing)|an? [a-z]+) [a-z]+[a-rt-z]s|(?:some(?:body|one|thing)|"
    r"an? [a-z]+|[a-z]+) (?:would|wants|has|is|was|can|will|may|must|are|were|have|goes|gets|"
    r"comes|needs))\b",
    re.I,
)
_MORE_VERBS = frozenset(
    """
    accept acknowledge activate add admit adopt advance allocate allow answer append apply
    appoint approve archive arrange ask assign associate attach attest authenticate authorise
    authorize await award backfill ban begin bill bind block book boost borrow bring build buy
    calculate call cancel capture change charge check choose claim clean clear clone close
    collect combine commit compare complete compute configure confirm connect consume convert
    copy correct count create credit crop cut deactivate decide declare decline decode decrypt
    define delete deliver demote deny deploy deposit describe detach detect disable disassociate
    disconnect dismiss dispatch display divide download drop duplicate edit embed empty enable
    encode encrypt end enlist enqueue enrol enroll enter escalate establish estimate evaluate
    exchange exclude execute expand expire export extend extract fetch file fill filter finalise
    finalize find finish fix flag flush follow force forward freeze generate get give grant hand
    hash have hide highlight hire hold impersonate import include increment index inform
    initialize initiate insert inspect install instantiate invalidate invite invoke issue join
    keep kick label launch lease leave lend let lift like link list load locate lock log login
    logout look lower make map mark match measure merge migrate moderate modify move mutate mute
    name note notify obtain offer open order override overwrite pack park patch pause pay
    perform pick pin ping place plan poll post prepare preview print process produce promote
    propose provide provision publish purchase purge push put query raise rank rate reactivate
    read reassign rebook rebuild recalculate receive recommend record recreate redeem redeliver
    redirect refresh refund refuse regenerate register reject release remap remind remove rename
    render renew rent reopen reorder repair repeat replace replay reply report reprocess request
    reschedule resend reserve reset resize resolve respond restart restore resubmit resubscribe
    resume retrieve retry return revert review revise revoke roll rotate run sample save say
    scan schedule score seal search see seek select sell send separate serve set settle share
    shift ship show shut sign simulate skip snooze solve sort spawn specify split star start
    stop store stream submit subscribe summarise summarize suspend swap switch sync synchronize
    tag take tell terminate test toggle tokenize top track transcribe transfer transform
    transition translate trash trigger turn unarchive unassign unban unblock undelete undo
    unfollow unfreeze unhide uninstall unlike unlink unlock unmap unmute unpin unpublish unset
    unshare unstar unsubscribe untag unwatch update upgrade upload upsert use validate verify
    view visit void vote wait waive warn watch water weigh whitelist wipe withdraw work write
    """.split()
)
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
    return _MORE_VERBS | {phrase.split(" ")[0] for phrase in phrases} - _NO_VERBS


_NO_VERBS = frozenset(
    {"the", "all", "there", "free", "next", "which", "what", "{x}", "{a}", "{ns}", "{who}"}
)


def _base_of_verb(found: re.Match[str]) -> str:
    base = base_verb(found[0])
    return base if base in known_verbs() else found[0]


def _of_gerund(word: str) -> str:
    """Return the verb of "Splitting", "Creating", "Booking"; "" for other words."""
    stem = word.lower().removesuffix("ing")
    if stem == word.lower():
        return ""
    return next((each for each in (stem, f"{stem}e", stem[:-1]) if each in known_verbs()), "")


def _verb_of_name(name: str) -> str:
    """Return the verb that a name begins or ends with; a thing is shown, or organised."""
    words = spaced_words(name).split(" ")
    verbs = [each for each in (words[0], words[-1]) if each in known_verbs()]
    if not verbs and len(words) == 1:
        return "organise" if words[0] == singular(words[0]) else "show me"
    looks = not verbs or verbs[0] in (
        "get",
        "post",
        "put",
        "patch",
        "show",
        "fetch",
        "read",
        "view",
        "tell",
        "list",
    )
    return "show me" if looks else verbs[0]


def _of_name(name: str, thing: str) -> str:
    """Return a name's words as an imperative: "give up the plot"; "" if it has no verb."""
    verb, *rest = spaced_words(name).split(" ")
    if rest and verb not in known_verbs():  # "minibar_add"; a thing is organised: "late_checkout"
        words = [verb, *rest]
        verb, rest = (rest[-1], words[:-1]) if rest[-1] in known_verbs() else ("organise", words)
    if not rest:
        return f"{verb} {thing}".strip() if verb in known_verbs() else ""
    at = 1 if rest[0] in PARTICLES else 0
    return " ".join([verb, *rest[:at], *(["the", *rest[at:]] if rest[at:] else [])])


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


def object_noun(sentence: str, name: str) -> str:
    """Return the noun of a function's subject, in the singular: "room", "parcel locker".

    What the verb takes, else the first thing with "a" or "one"; of a name in the plural its noun.
    """
    words = spaced_words(name).split()
    if asked := re.match(r"tell me how (?:much|many) ([a-z ]+?) (?:an?|the|one|each) ", sentence):
        return singular(asked[1])
    verb, _, rest = sentence.lower().replace("show me ", "show ").partition(" ")
    if len(words) > 1 and words[-1] in _ABOUT_THING:
        return singular(words[-2])
    if verb in ("have", "let") and rest:
        return singular(rest.split(" ")[-1])
    if verb in ("look", "search", "ask", "apply"):
        rest = rest.removeprefix("for ")
    of_name = [each for each in words[1:] if each not in PREPOSITIONS]
    last = words[-1]
    if verb in _LISTING and last not in PREPOSITIONS and singular(last) != last:
        return singular(last)
    for phrase in _noun_phrases(rest):
        return singular(phrase)
    return singular(of_name[-1]) if of_name else "one"


_ABOUT_THING = frozenset("of details detail info status history".split())
_LISTING = frozenset(
    "list find search get show return look fetch retrieve tell give browse".split()
)


def _noun_phrases(rest: str) -> Iterator[str]:
    """Yield the noun phrases that may be the object of a verb, the likeliest first."""
    direct = re.match(
        r"(?:up |out |back |off |down )?(?:all |an? |the |one |your own |your |new |every |more )*"
        r"(?:new )?([a-z'-]+(?: [a-z'-]+)*)",
        rest,
    )
    rest = re.sub(r"^(?:up|out|back|off|down) ", "", rest)
    starts = rest.split(" ")[0]
    if direct and starts not in PREPOSITIONS and starts not in _NO_OBJECT:
        words = _until_preposition(direct[1].split())
        if words and words[0] not in _NO_OBJECT:
            yield " ".join(words[-2:])
    for found in re.finditer(r"\b(?:an?|one) ([a-z'-]+(?: [a-z'-]+)*)", rest):
        words = _until_preposition(found[1].split())
        if words:
            yield words[0] if len(words) > 2 else " ".join(words)


_NO_OBJECT = frozenset(
    "nobody off elsewhere away anybody when where what how who which whether if somebody someone "
    "everything it them me people let back up out longer everyone".split()
)


def _until_preposition(words: list[str]) -> list[str]:
    return list(takewhile(lambda word: word not in PREPOSITIONS | _NO_OBJECT, words))


def _lower(text: str) -> str:
    return text if re.match(r"[A-Z]{2}", text) else text[:1].lower() + text[1:]
