"""SpokenOperation: verb and thing of a function, from its summary, name and path."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fctncalling.lab.own_api.english import base_verb, participle, plural, singular, with_article
from fctncalling.lab.own_api.words.doc_sentence import PARTICLES, known_verbs
from fctncalling.lab.own_api.words.noun_binding import (
    ADDING,
    FILL,
    LISTS,
    MASS,
    PLACING,
    NounBinding,
    Segment,
    SpokenParameter,
    content,
)
from fctncalling.lab.own_api.words.vocabulary import split_phrases, spoken_name, word_table

MOODS = ("do", "want", "say", "ask")
_CLAUSE = frozenset(
    "that which who whose where when while if so because such including will can is are was were "
    "has have had may must should e.g. i.e. based whether how what then but only rather "
    "optionally according representing containing specifying matching showing describing".split()
)
_ASPECTS = frozenset("detail details information info data metadata representation".split())
_FACTS = frozenset(
    "status state count counts total number statistics amount price cost rate balance quota usage "
    "size version limit permission progress time date".split()
)
_WITH_TO = frozenset("access link reply response answer change reference subscription".split())
_ALSO_NOUNS = frozenset(
    "order report file list record issue post tag label star note book plan group queue request "
    "map batch index stream process review schedule session match display library search".split()
)
_ONE_OWNER = re.compile(r"(?:of|for|in) (\{\w+\})")
_OF_SEVERAL = (("{o} has", "{o} have"), ("{t} has", "{t} have"), ("{t} needs", "{t} need"))


@dataclass(frozen=True)
class SpokenOperation:
    """Operation as verb, thing, owner and destination.

    `own` is the parameter whose value says which thing. `owners` has phrases such as "of {id}",
    `places` such as "to the queue"; `nouns` says what the values in slots are called: "album".
    """

    verb: str
    sort: str
    thing: str
    determiner: str
    many: bool
    own: str | None
    owners: tuple[str, ...]
    places: tuple[str, ...]
    nouns: Mapping[str, str]

    @property
    def head(self) -> str:
        """The noun of its thing, in the singular."""
        return singular(self.thing)

    def phrases(self) -> Iterator[tuple[str, str]]:
        """Yield (mood, phrase) of all ways to ask for it, slots within."""
        row = word_table("operations")[self._row()]
        parts = self._parts()
        several = self.many and self.own is None
        for mood in MOODS:
            for form in split_phrases(row[mood]):
                if re.match(r"(?:which|what) \{ns\} are", form) and (
                    self.determiner in ("my", "our") or parts["b"].startswith("of ")
                ):
                    continue
                for one, many in _OF_SEVERAL if several else ():
                    form = form.replace(one, many)
                text = re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], form)
                if "\0" not in text:
                    yield mood, " ".join(text.split())

    def _row(self) -> str:
        if self.sort == "look" and self.many:
            return "look_many"
        if self.sort == "look":
            return "look_fact" if self.thing.split(" ")[-1] in _FACTS else "look_one"
        if self.verb.split(" ")[-1] in PLACING | PARTICLES:
            return "bare"
        goes = any(re.match(r"(?:from|to|into|with|as|against) ", each) for each in self.places)
        acts_on_one = self.sort in ("make", "search") and self.own is not None
        is_plain = self.sort in ("end", "change", "make")
        return "other" if acts_on_one or (is_plain and (goes or " " in self.verb)) else self.sort

    def _parts(self) -> dict[str, str]:
        """Return what stands for the marks of a phrase; "\\0" for what it lacks."""
        stays = self.thing.split(" ")[-1] in _WITH_TO and self.places[:1] == self.places
        of_thing, after = (self.places, ()) if stays else ((), self.places)
        owners, places = " ".join([*self.owners, *of_thing]), " ".join(after)
        noun = self.head
        is_mass = noun.split(" ")[-1] in MASS
        thing = f"{{{self.own}}}" if self.own else f"{self.determiner} {self.thing}".strip()
        fresh = f"new {self.thing}" if self.many or is_mass else with_article(f"new {noun}")
        things = self.thing if self.many or is_mass else plural(self.thing)
        return {
            "t": f"{thing} {owners} {places}",
            "o": f"{thing} {owners}",
            "p": places,
            "a": fresh,
            "ns": f"{self.determiner} {things}" if self.determiner in ("my", "our") else things,
            "b": f"{owners} {places}".strip(),
            "w": owner[1]
            if (owner := _ONE_OWNER.fullmatch(f"{owners} {places}".strip()))
            else "\0",
            "v": self.verb,
            "d": participle(self.verb) if " " not in self.verb else "\0",
        }


def read_operation(
    sentence: str,
    method: str,
    path: str,
    parameters: Sequence[SpokenParameter],
    known: Collection[str],
    said_apart: Collection[str] = (),
) -> SpokenOperation | None:
    """Parse an imperative sentence into an operation; None if it has no object.

    `known` are the words of its name, path and parameters: those of a sentence with a capital
    letter are no names. `said_apart`: labels of what a request says behind its phrase.
    """
    verb, segments = _segments(_plain(sentence, known))
    if not segments:
        return None
    sort = _sort_of(verb, method)
    if sort == "search" and not content(segments[0][1]):
        behind = segments[1][0] if len(segments) > 1 else "by"
        if behind in ("by", "with"):  # "search by title"
            verb, sort, segments = "run", "other", [("", ["a", "search"])]
    verb, segments = _object_first(verb, segments, sort, path)
    place, words = segments[0]
    if place or not words:
        return None
    has_articles = re.search(r"\b(?:an?|the)\b", sentence) is not None
    binding = NounBinding(verb, sort, path, parameters, has_articles, said_apart)
    many, determiner, thing = binding.thing(words)
    if len(thing) > 1 and base_verb(thing[-1].lower()) == verb:  # "refresh: OAuth Token Refresh"
        thing = thing[:-1]
    thing = binding.without_owner(thing)
    phrases = [words for _, words in segments[1:]]
    own = binding.thing_parameter(thing, many, phrases)
    places = binding.places(segments[1:])
    said = binding.without_prefix(thing)
    if not said:
        return None
    if own:
        said, many = singular(said), False
        binding.nouns[own] = said
    determiner = binding.determiner or determiner
    owners = binding.owners()
    if verb in ADDING:
        owners, places = (), owners + places
    if own and sort == "search":
        sort = "other" if verb == "query" else "look"
    return SpokenOperation(verb, sort, said, determiner, many, own, owners, places, binding.nouns)


def operation_of_path(method: str, path: str) -> str:
    """Return a sentence for a method and a path alone: "list the repositories"; "" for none."""
    parts = [each for each in path.split("#")[0].split("/") if each]
    things = [spoken_name(each) for each in parts if not each.startswith("{")]
    things = [each for each in things if not re.fullmatch(r"v\d+|api|rest|\d+|me", each)]
    if not things:
        return ""
    item = bool(parts) and parts[-1].startswith("{")
    *_, last = things
    last = last.removeprefix("bulk ")
    first = last.split(" ")[0]
    if first in known_verbs() and method == "POST" and first == base_verb(first):
        before = singular(things[-2]) if len(things) > 1 else ""
        return f"{first} the {before} {last.removeprefix(first).strip()}".strip()
    one = singular(last)
    if method == "GET":
        return f"get the {one}" if item or one == last else f"list the {last}"
    verb = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}.get(method)
    return f"{verb or 'get'} {with_article(one) if verb == 'create' else f'the {one}'}"


def _plain(sentence: str, known: Collection[str]) -> list[str]:
    """Return a sentence's words, in small letters where they are no names."""
    text = re.sub(r"\b(logged|signed|built|opted)[ -](in|on|out)\b", r"\1-\2", sentence)
    text = re.sub(r"^(\w+)/\w+", r"\1", text)  # "Start/Resume Playback"
    text = re.sub(r"\b(?:belonging|related|attached|assigned) to\b|\bassociated with\b", "of", text)
    if len((head := text.split(", ")[0]).split()) > 2:
        text = head
    text = re.sub(r"\b(?:one|1) or more\b|\(s\)|\bup to \d+\b|\bat once\b|\bin order\b", "", text)
    text = re.sub(r"(?<=[a-z])_(?=[a-z])", " ", text)
    text = re.sub(r" for (?:use|usage|reference)\b.*", "", text)
    words = [each.strip(",;:!?\"'()[]").rstrip(".") for each in text.split()]
    words = [each for each in words if each]
    titled = sum(each[:1].isupper() for each in words[1:]) >= len(words[1:]) / 2
    table = word_table("operations")["abbreviations"]

    def lowered(word: str) -> str:
        low = word.lower()
        bare = low.removesuffix("'s")
        if bare in table and word[1:] == low[1:]:
            return f"{table[bare]}{low[len(bare) :]}"
        is_title = re.fullmatch(r"[A-Z][a-z'-]+(?:-[A-Z][a-z]+)*", word) is not None
        return low if is_title and (titled or {low, singular(low)} & set(known)) else word

    return [words[0].lower(), *map(lowered, words[1:])] if words else []


def _segments(words: list[str]) -> tuple[str, list[Segment]]:
    """Return (verb, phrases as preposition and words) of a sentence, up to its first clause."""
    if not words:
        return "", []
    verb, at = base_verb(words[0]), 1
    if len(words) > 3 and words[1] in ("or", "and") and base_verb(words[2]) in known_verbs():
        verb, at = f"{verb} and {base_verb(words[2])}" if words[1] == "and" else verb, 3
    is_stock = words[at : at + 2] == ["back", "in"]
    if at < len(words) - 1 and words[at] in PARTICLES - {"in", "on"} and not is_stock:
        verb, at = f"{verb} {words[at]}", at + 1
    segments: list[Segment] = [("", [])]
    for index, word in enumerate(words[at:], at):
        following = words[index + 1] if index + 1 < len(words) else ""
        if word == "by" and following.endswith("ing"):
            break
        is_given = word in ("given", "provided") and content(segments[-1][1])
        is_end = word in ("and", "or") and not following
        if word in _CLAUSE or is_given or is_end:
            break
        if _begins_a_verb(word, following, words[index + 2 : index + 3]):
            break
        if word in PLACING:
            before = segments[-1][1]
            if len(content(before)) > 1 and re.search(r"..ed$|^exempt$|^available$", before[-1]):
                word = f"{before.pop()} {word}"  # "the license allocated to a user"
            segments.append((word, []))
        else:
            segments[-1][1].append(word)
    return verb, segments


def _begins_a_verb(word: str, following: str, after: list[str]) -> bool:
    """Return whether "and" or "to" goes on with another verb: "and run it", "to delete a file"."""
    if word not in ("and", "or", "to") or base_verb(following) not in known_verbs():
        return False
    if word == "to" and after and following not in _ALSO_NOUNS:
        return True
    return bool(after) and after[0] in FILL | {"it", "them", "its", "their", "new"}


def _thing_of_path(path: str) -> str:
    """Return the first thing of a path, in the singular."""
    parts = [part for part in path.split("/") if part and "{" not in part]
    parts = [part for part in parts if not re.fullmatch(r"v\d+|api|rest", part)]
    return singular(spoken_name(parts[0])) if len(parts) > 1 else ""


def _object_first(
    verb: str, segments: list[Segment], sort: str, path: str
) -> tuple[str, list[Segment]]:
    """Return verb and phrases with that of the thing first: "search for books", "details of a"."""
    if not content(segments[0][1]) and len(segments) > 1:
        place, words = segments[1]
        if place == "of" or (sort == "search" and place in ("for", "through", "in")):
            return verb, [("", segments[0][1] + words), *segments[2:]]
        if place in ("with", "as") and (thing := _thing_of_path(path)):  # "send with template"
            return verb, [("", ["a", *thing.split()]), *segments[1:]]
        return f"{verb} {place}", [("", words), *segments[2:]]
    telling = content(segments[0][1])
    if sort != "make" and len(segments) > 1 and len(telling) == 1:
        aspect, place = telling[0], segments[1][0]
        if (aspect in LISTS and sort == "look" and place == "of") or (
            aspect in _ASPECTS and place in ("of", "about", "on")
        ):
            return verb, [("", segments[1][1]), *segments[2:]]
    return verb, segments


def _sort_of(verb: str, method: str) -> str:
    """Return the sort of an operation: look, search, make, change, end or other."""
    for sort, verbs in word_table("operations")["verbs"].items():
        if verb.split(" ")[0] in verbs.split():
            return "other" if " " in verb and sort != "search" and verb != "look up" else str(sort)
    return "other" if method != "GET" or verb.split(" ")[0] in known_verbs() else "look"
