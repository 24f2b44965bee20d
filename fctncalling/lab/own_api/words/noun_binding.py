"""NounBinding: maps nouns of an operation's sentence to its parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from fctncalling.lab.own_api.english import is_plural, singular, with_article

FILL = frozenset(
    "a an the one single specific specified given particular certain individual existing provided "
    "desired requested all every each any some several multiple your own this that these those "
    "following set list full compact complete current".split()
)
INDEFINITE = frozenset("a an one another".split())
_UNTOLD = frozenset(
    "id ids identifier identifiers parameter parameters body filter filters sort sorts input array "
    "arrays data details information".split()
)
MASS = frozenset(
    "data metadata information inventory content feedback access usage audio video traffic "
    "history weather music media access membership capacity spend billing".split()
)
ADDING = frozenset("add append attach insert post submit upload assign send".split())
_FRESH = ADDING | frozenset("place start begin run trigger request invite launch upsert".split())
_ANY_ONE = frozenset("given specified provided supplied following specific single".split())
_SHORTEST_NOUN = 3  # letters; "x", "wfo": what nobody would say as a noun
PLACING = frozenset(
    "of for to from in on at by with without about into onto under over between after before until "
    "since via per as within across against using around near inside towards through".split()
)
LISTS = frozenset("list lists collection set array page".split())
MOST_WORDS = 14  # of a phrase; what is longer loses what stands behind
Segment = tuple[str, list[str]]
"""A preposition and the words behind it."""


@dataclass(frozen=True)
class SpokenParameter:
    """Parameter by what it may be called in a sentence, and where it stands."""

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
        """`said_apart`: labels of the parameters that a request says behind its phrase."""
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
        if len(kept) > 1 and kept[-1] in ("resource", "object", "entity", "record"):
            kept = kept[:-1]
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
        if self._verb.split(" ")[-1] in PLACING:
            return False
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
        if not words:
            return None
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
                    return None if is_new else self._take(each, words)
        if last is None or self._sort == "make":
            return None
        initials = "".join(word[0] for word in words).lower()
        named = {word for noun in last.nouns for word in [noun, *noun.split()]}
        return self._take(last, words) if named & {initials, words[-1]} else None

    def _take(self, parameter: SpokenParameter, words: list[str]) -> str:
        del self._open[parameter.name]
        self.nouns[parameter.name] = singular(" ".join(words))
        return parameter.name

    def without_prefix(self, words: list[str]) -> str:
        """Return the thing without the noun of what it belongs to: "album tracks".

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
        """Return the phrases behind the thing, nouns of parameters as slots."""
        found: list[str] = []
        for place, words in segments:
            kept = without_fill(words)
            named = {*self.nouns.values(), *_IDENTIFIERS}
            if place == "by" and any(_ends_alike(kept, noun) for noun in named):
                continue
            if (parameter := self._bound(kept, of_place=True)) is not None:
                of_thing = place in ("by", "with", "using") or (self._sort, place) == (
                    "look",
                    "from",
                )
                place = self._owning if of_thing else place
                found.append(f"{place} {{{parameter}}}")
            elif self._tells_nothing(words, kept):
                continue
            elif kept and place not in ("by", "using") and kept[-1].lower() not in _UNTOLD:
                found.append(f"{place} {_with_determiner(words, kept, self._has_articles)}")
        while sum(len(each.split()) for each in found) > MOST_WORDS and "{" not in found[-1]:
            found.pop()
        return tuple(found)

    def _tells_nothing(self, words: list[str], kept: list[str]) -> bool:
        """Return whether a place is any one ("for a project") or said by a value of its own."""
        low = [each.lower() for each in words]
        any_one = low[:1] and (low[0] in INDEFINITE or {*low} & _ANY_ONE)
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
                        del self._open[each.name]
                        self.nouns[each.name] = singular(said)
                        return each.name
        return None


_IDENTIFIERS = ("id", "ids", "name", "key", "slug", "identifier", "number", "code")


def _ends_alike(words: Sequence[str], noun: str) -> bool:
    """Return whether a phrase ends with a noun, or the noun with the whole phrase."""
    if not words:
        return False
    one = singular(" ".join(words).lower()).split()
    two = noun.lower().split()
    count = min(len(one), len(two))
    return one[-count:] == two[-count:]


def _with_determiner(words: list[str], kept: list[str], has_articles: bool) -> str:
    """Return a phrase with "a" or "the" as written, "the" where a sentence is without any."""
    phrase = " ".join(kept)
    low = [each.lower() for each in words]
    if "your" in low:
        return f"our {phrase}"
    if low[0] in INDEFINITE or {"given", "specified"} & set(low):
        return with_article(phrase)
    is_single = not is_plural(kept[-1].lower()) and kept[-1] not in MASS and kept[-1].islower()
    return f"the {phrase}" if low[0] == "the" or (is_single and not has_articles) else phrase


def without_fill(words: Sequence[str], fill: Collection[str] = FILL) -> list[str]:
    """Return words without determiners and the like before them."""
    return list(dropwhile(lambda word: word.lower() in fill, words))


def content(words: list[str]) -> list[str]:
    """Return the words that are more than determiners; "list of" and the like stay."""
    return [each for each in words if each.lower() not in FILL or each in LISTS]
