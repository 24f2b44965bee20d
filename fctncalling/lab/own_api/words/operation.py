"""SpokenOperation: verb and thing of a function, from its summary, name and path."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

from fctncalling.lab.own_api.english import (
    base_verb,
    is_plural,
    participle,
    plural,
    singular,
    things_of_path,
    with_article,
)
from fctncalling.lab.own_api.words.doc_sentence import PARTICLES, known_verbs
from fctncalling.lab.own_api.words.vocabulary import (
    other_nouns,
    other_verbs,
    split_phrases,
    spoken_name,
    word_table,
)

FILL = frozenset(
    "a an the one single specific specified given particular certain individual existing provided "
    "desired requested all every each any some several multiple your own this that these those "
    "following set list full compact complete current".split()
)
INDEFINITE = frozenset("a an one another".split())
_ANY_OF_SOME = INDEFINITE | {"two", "somebody", "someone"}  # "between two ports"
_UNTOLD = frozenset(
    "id ids identifier identifiers parameter parameters body filter filters sort sorts input array "
    "arrays data details information".split()
)
MASS = frozenset(
    "data metadata information inventory content feedback access usage audio video traffic "
    "history weather music media access membership capacity spend billing".split()
)
ADDING = frozenset("add append attach insert post submit upload assign send".split())
_FRESH = ADDING | frozenset(
    "place start begin run trigger request invite launch upsert file report schedule record "
    "register reserve book order open issue".split()
)
_ANY_ONE = frozenset("given specified provided supplied following specific single".split())
_SHORTEST_NOUN = 3  # letters; "x", "wfo": what nobody would say as a noun
PLACING = frozenset(
    "of for to from in on at by with without about into onto under over between after before until "
    "since via per as within across against using around near inside towards through".split()
)
LISTS = frozenset("list lists collection set array page".split())

Segment = tuple[str, list[str]]
"""A preposition and the words behind it."""


@dataclass(frozen=True)
class SpokenParameter:
    """Parameter with its possible nouns and its place."""

    name: str
    nouns: tuple[str, ...]  # the likeliest first
    in_path: bool
    is_last: bool  # the last part of the path, which says which thing
    is_bound: bool  # its values may stand behind its noun; those of others are said apart
    is_listed: bool = False


class NounBinding:
    """Parameters of one operation, bound to the nouns of its sentence one by one."""

    def __init__(
        self,
        verb: str,
        sort: str,
        path: str,
        parameters: Sequence[SpokenParameter],
        has_articles: bool,
        said_apart: Collection[str] = (),
    ) -> None:
        """`said_apart`: labels of the parameters that a request says after its phrase."""
        self._verb = verb
        self._sort = sort
        self._has_articles = has_articles
        self._of_me = bool(re.search(r"/me(?:/|$)|/user(?:/|$)", path))
        self._open = {each.name: each for each in parameters if each.is_bound}
        self._order = sorted(
            (each.name for each in parameters), key=lambda name: path.find(f"{{{name}}}")
        )
        self._said_apart = {*said_apart}
        self._owning = "to" if verb in ADDING else "for" if sort == "make" else "of"
        self._owners: list[str] = []
        self.nouns: dict[str, str] = {}
        self.determiner = ""

    def thing(self, words: list[str]) -> tuple[bool, str, list[str]]:
        """Return (many, determiner, words) of the thing."""
        low = [each.lower() for each in words]
        kept = without_fill(words, FILL | {"new", "additional"}) or content(words)
        kept = kept[:-1] if kept[1:] and kept[-1] in ("resource", "object", "record") else kept
        head = kept[-1].lower() if kept else ""
        many = is_plural(head) and head not in MASS
        several = bool({"all", "multiple", "several"} & set(low))
        determiner = "our" if "your" in low else "the"
        if determiner == "the" and low[0] != "the" and self._is_fresh(low[0]):
            is_one = kept and not many and head not in MASS
            determiner = with_article(kept[0]).split(" ")[0] if is_one else ""
        return many or (several and self._sort == "look"), determiner, kept

    def _is_fresh(self, first: str) -> bool:
        """Return whether the thing is none that there is already: "place an order"."""
        return self._sort == "make" or (
            self._sort == "other" and (first in INDEFINITE or self._verb in _FRESH)
        )

    def without_owner(self, words: list[str]) -> list[str]:
        """Return words without a possessive owner, which is kept: "artist's albums"."""
        at = next((i for i, each in enumerate(words) if re.search(r"'s$|s'$", each)), None)
        if at is None or at == len(words) - 1:
            return words
        owner = [*words[:at], re.sub(r"'s?$", "", words[at])]
        if (parameter := self._bound(owner)) is not None:
            self._owners.append(parameter)
        elif self._of_me or owner[0] in ("current", "authenticated", "logged-in"):
            self.determiner = "my"
        elif owner != ["user"]:
            return words
        return words[at + 1 :]

    def thing_parameter(
        self, words: list[str], many: bool, behind: Sequence[list[str]] = ()
    ) -> str | None:
        """Return the parameter that identifies the thing, and bind it to its noun.

        None where a phrase behind has that noun: "the shared link of a web link".
        """
        in_path = [each for each in self._open.values() if each.in_path]
        last = next((each for each in in_path if each.is_last), None)
        is_new = self._sort == "make" and last is None
        whole = singular(" ".join(words).lower())
        phrases = {singular(" ".join(without_fill(each)).lower()) for each in behind}
        for each in [*in_path]:
            if whole not in each.nouns[:1] and phrases & {*each.nouns[:1]}:
                in_path.remove(each)
        last = last if last in in_path else None
        if many and not (last and whole in last.nouns):
            return None
        for each in [*([last] if last else []), *(in_path[::-1] or self._open.values())]:
            for noun in each.nouns:
                certain = each is last or not in_path
                ends = certain or len(words) >= len(noun.split())
                if (ends and _ends_alike(words, noun)) or (noun == "one" and certain):
                    return None if is_new else self._take(each, " ".join(words))
        return None

    def _take(self, parameter: SpokenParameter, noun: str) -> str:
        del self._open[parameter.name]
        self.nouns[parameter.name] = singular(noun)
        return parameter.name

    def without_prefix(self, words: list[str]) -> str:
        """Return the thing without the noun of its owner: "album tracks".

        A thing that a parameter of the path has for a noun belongs to another of the path only.
        """
        if singular(" ".join(words)) in self.nouns.values():
            self._open = {name: each for name, each in self._open.items() if each.in_path}
        if {"and", "or"} & set(words):
            return " ".join(words)
        spans = [(i, j) for i in range(len(words) - 1) for j in range(len(words) - 1, i, -1)]
        for i, j in spans:
            if (parameter := self._bound(words[i:j], whole=True)) is not None:
                self._owners.append(parameter)
                return self.without_prefix([*words[:i], *words[j:]])
        return " ".join(words)

    def places(self, segments: Sequence[Segment]) -> tuple[str, ...]:
        """Return the phrases after the thing, nouns of parameters as slots."""
        found: list[str] = []
        untold = False
        for place, words in segments:
            kept = without_fill(words)
            if untold and place == "of":
                continue  # "to another time of the day"
            untold = False
            named = {*self.nouns.values(), *_IDENTIFIERS}
            if place == "by" and any(_ends_alike(kept, noun) for noun in named):
                continue
            if (parameter := self._bound(kept, of_place=True)) is not None:
                of_thing = (*("by", "with", "using"), *(["from"] if self._sort == "look" else []))
                place = self._owning if place in of_thing else place
                found.append(f"{place} {{{parameter}}}")
            elif self._tells_nothing(words, kept):
                untold = True
                its = [each for each in self._open.values() if each.in_path]
                if place == "from" and len(its) == 1 and words[0].lower() in INDEFINITE:
                    found.append(f"from {{{self._take(its[0], its[0].nouns[0])}}}")
            elif kept and place not in ("by", "using") and kept[-1].lower() not in _UNTOLD:
                found.append(f"{place} {_with_determiner(words, kept, self._has_articles)}")
        return tuple(found)

    def _tells_nothing(self, words: list[str], kept: list[str]) -> bool:
        """Return whether a place is any one ("for a project") or is said by a separate value."""
        low = [each.lower() for each in words]
        any_one = low[:1] and (low[0] in _ANY_OF_SOME or {*low} & _ANY_ONE)
        users = any(re.match(r"users?['\u2019]s?$", each) for each in low)
        said = singular(" ".join(kept).lower().replace("-", ""))
        is_bound = said in self.nouns.values() or said.split(" ")[-1:] == ["once"]
        return bool(any_one) or users or is_bound or bool({said, *said.split()} & self._said_apart)

    def owners(self) -> tuple[str, ...]:
        """Return phrases for the owners of the thing, the nearest first: those last in the path."""
        named = [*self._owners]
        for each in [each for each in self._open.values() if each.in_path]:
            is_noun = len(each.nouns[0]) > _SHORTEST_NOUN and each.nouns[0] != "one"
            if is_noun and not each.is_listed:
                self.nouns[each.name] = each.nouns[0]
                named.append(each.name)
        named.sort(key=lambda name: -self._order.index(name))
        return tuple(
            f"{'of' if number else self._owning} {{{name}}}" for number, name in enumerate(named)
        )

    def _bound(
        self, words: list[str], *, whole: bool = False, of_place: bool = False
    ) -> str | None:
        """Bind and return the free parameter that a noun phrase names."""
        words = without_fill(words)
        alternatives = " ".join(words).split(" or ")  # "a workspace or organization"
        for each in self._open.values() if words else ():
            is_new = each.is_last and self._sort == "make" and not of_place
            for said in [] if is_new else alternatives:
                for noun in each.nouns:
                    same = singular(said.lower()) == noun
                    if same or (not whole and _ends_alike(said.split(), noun)):
                        return self._take(each, said)
        return None


_IDENTIFIERS = ("id", "ids", "name", "key", "slug", "identifier", "number", "code")


def _ends_alike(words: Sequence[str], noun: str) -> bool:
    """Return whether a phrase ends with a noun, or the noun with the whole phrase."""
    one = singular(" ".join(words).lower()).split()
    two = noun.lower().split()
    count = min(len(one), len(two))
    return one[-count:] == two[-count:]


def _with_determiner(words: list[str], kept: list[str], has_articles: bool) -> str:
    """Return a phrase with "a" or "the" as written, "the" if a sentence has no articles."""
    phrase = " ".join(kept)
    low = [each.lower() for each in words]
    if "your" in low:
        return f"our {phrase}"
    is_single = not is_plural(kept[-1].lower()) and kept[-1] not in MASS and kept[-1].islower()
    return f"the {phrase}" if low[0] == "the" or (is_single and not has_articles) else phrase


def without_fill(words: Sequence[str], fill: Collection[str] = FILL) -> list[str]:
    """Return words without determiners and the like before them."""
    return list(dropwhile(lambda word: word.lower() in fill, words))


def content(words: list[str]) -> list[str]:
    """Return the words that are more than determiners; "list of" and the like stay."""
    return [each for each in words if each.lower() not in FILL or each in LISTS]


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

    @property
    def lists_several(self) -> bool:
        """Whether it looks at several things at once."""
        return self.own is None and (self.many or self.sort == "search")

    @property
    def things(self) -> str:
        """The noun of its things, in the plural if that has one."""
        is_mass = self.head.split(" ")[-1] in MASS
        return self.thing if self.many or is_mass else plural(self.thing)

    def phrases(self) -> Iterator[tuple[str, str]]:
        """Yield (mood, phrase) of all ways to ask for it, slots within."""
        yield from self._phrases_of(self._row())
        noun = self.thing.split(" ")[-1]
        for other in () if self.own else other_nouns(singular(noun)):
            other = plural(other) if is_plural(noun) else other
            thing = f"{self.thing.removesuffix(noun)}{other}"
            yield from replace(self, thing=thing)._phrases_of(self._row())
        for other in other_verbs(self.verb):
            yield from replace(self, verb=other)._phrases_of("verb")

    def _phrases_of(self, row_name: str) -> Iterator[tuple[str, str]]:
        row, parts = word_table("operations")[row_name], self._parts()
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
        if self.verb.split(" ")[-1] in PLACING - PARTICLES:
            return "bare"
        goes = any(re.match(r"(?:from|to|into|with|as|against) ", each) for each in self.places)
        acts_on_one = self.sort in ("make", "search") and self.own is not None
        is_plain = self.sort in ("end", "change", "make")
        return "other" if acts_on_one or (is_plain and (goes or " " in self.verb)) else self.sort

    def _parts(self) -> dict[str, str]:
        """Return the replacement of each mark of a phrase; "\\0" for a missing part."""
        stays = self.thing.split(" ")[-1] in _WITH_TO and self.places[:1] == self.places
        stays |= self.places[:1] != () and self.places[0].startswith("of ")
        of_thing, after = (self.places[:1], self.places[1:]) if stays else ((), self.places)
        owners, places = " ".join([*self.owners, *of_thing]), " ".join(after)
        noun = self.head
        is_mass = noun.split(" ")[-1] in MASS
        thing = f"{{{self.own}}}" if self.own else f"{self.determiner} {self.thing}".strip()
        fresh = f"new {self.thing}" if self.many or is_mass else with_article(f"new {noun}")
        things = self.things
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
            "d": " ".join([participle(self.verb.split(" ")[0]), *self.verb.split(" ")[1:]]),
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
    verb, segments = _object_first(verb, segments, sort)
    place, words = segments[0]
    if place or not words:
        return None
    if at := next((i for i, word in enumerate(words) if i and word in INDEFINITE), 0):
        segments[1:1] = [("to", words[:at])]  # "send an owner a reminder"
        words = words[at:]
    has_articles = re.search(r"\b(?:an?|the)\b", sentence) is not None
    binding = NounBinding(verb, sort, path, parameters, has_articles, said_apart)
    many, determiner, thing = binding.thing(words)
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
    things = [*map(spoken_name, things_of_path(path))]
    if not things:
        return ""
    item = path.split("#")[0].rstrip("/").rpartition("/")[2].startswith("{")
    last = things[-1].removeprefix("bulk ")
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
    """Return a sentence's words, in small letters unless they are names."""
    text = re.sub(r"\b(logged|signed|built|opted)[ -](in|on|out)\b", r"\1-\2", sentence)
    text = re.sub(r"^(\w+)/\w+", r"\1", text)  # "Start/Resume Playback"
    text = re.sub(r"^((?:take|get|move|pull|sign)s? .+?) out of ", r"\1 from ", text, flags=re.I)
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
    place, last = segments[-1]
    if place in PARTICLES and not last:  # "check the passengers of a booking in"
        return f"{verb} {place}", segments[:-1]
    first = segments[0][1]
    if " " not in verb and len(content(first)) > 1 and first[-1] in PARTICLES:
        verb = f"{verb} {first.pop()}"  # "sign a student up for a course"
    return verb, segments


def _begins_a_verb(word: str, following: str, after: list[str]) -> bool:
    """Return whether "and" or "to" begins another verb: "and run it", "to delete a file"."""
    if word not in ("and", "or", "to") or base_verb(following) not in known_verbs():
        return False
    if word == "to" and after and following not in _ALSO_NOUNS:
        return True
    return bool(after) and after[0] in FILL | {"it", "them", "its", "their", "new"}


def _object_first(verb: str, segments: list[Segment], sort: str) -> tuple[str, list[Segment]]:
    """Return verb and phrases with that of the thing first: "search for books", "details of a"."""
    if not content(segments[0][1]) and len(segments) > 1:
        place, words = segments[1]
        if place == "of" or (sort == "search" and place in ("for", "through", "in")):
            return verb, [("", segments[0][1] + words), *segments[2:]]
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
