"""FunctionWords: nouns and verbs of a function, its thing, parameters and other people."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fctncalling.data.types import FunctionDoc
from fctncalling.lab.own_api.english import (
    base_verb,
    plural,
    singular,
    spaced_words,
    with_article,
)
from fctncalling.lab.own_api.kinds import ArgumentKind
from fctncalling.lab.own_api.words.doc_sentence import (
    PARTICLES,
    first_sentence,
    imperative,
    known_verbs,
    object_noun,
)
from fctncalling.lab.own_api.words.operation import (
    SpokenOperation,
    SpokenParameter,
    operation_of_path,
    read_operation,
)
from fctncalling.lab.own_api.words.vocabulary import spoken_name, word_table

_ID_ENDS = frozenset("id ids gid uid guid sid number no uuid identifier key ref nr num".split())
_GENERIC = frozenset("id gid uid uuid guid sid key identifier slug".split())
_BOUND = frozenset("identifier free_text person_name place email integer url enum".split())
_NAMING = frozenset("identifier person_name place email".split())
_OTHER_ENDS = frozenset("code name slug".split())
_NAMED = re.compile(
    r"(?:number|id|identifier|code|name|uuid|key|title) of (?:(?:the|an?|your|this|its|their) )?"
    r"([a-z][a-z' ]*?)(?=[,.;:(]|$| such\b| as\b| in\b| to\b| that\b| which\b| who\b| whose\b"
    r"| for\b| with\b| on\b)"
)
_NUMBERED = re.compile(r"(?:the |a |an |your )?([a-z]+)(?:'s)? (?:number|no\.?|id)(?![a-z])")
_SHORTEST_NOUN = 3  # letters; a shorter name may be an abbreviation that nobody says
_ADJECTIVES = frozenset("membership registration reference identification serial internal".split())
_NO_THING = ("title", "reason", "note", "message", "problem", "username", "department")
_ABOUT = re.compile(r"\b(?:of|for|about|where) (?:an?|the) ([a-z]+)\b(?! of)")
_PLACED = re.compile(r"\b(?:from|to|reference|ref|postcode|zip|origin|destination)\b")


@dataclass(frozen=True, eq=False)  # what is found of it once is kept by its identity
class FunctionWords:
    """A function with the kinds of its parameters, and the words that follow from both."""

    doc: FunctionDoc
    kinds: Mapping[str, ArgumentKind]
    origin: Mapping[str, Any] = field(default_factory=dict)  # see `OwnApi.origins`
    clauses: Mapping[str, Sequence[str]] | None = None  # of the user's phrases; None: our words

    @cached_property
    def sentence(self) -> str:
        """What it does, as an imperative."""
        of_path = operation_of_path(self.method, self.path)
        if of_path and not self.doc.description.strip():
            verb, _, thing = spoken_name(self.doc.name).partition(" ")
            is_told = bool(thing) and verb in known_verbs() and not self._is_named_by_path()
            return f"{verb} {thing}" if is_told else of_path
        sentence = imperative(self.doc.description, self.doc.name)
        if of_path and " " not in sentence.strip():  # "List", "Cancel"
            return f"{base_verb(sentence.strip().lower())} {of_path.partition(' ')[2]}"
        is_other = re.search(r"\b(?:documentation|endpoint)\b", sentence, re.I)
        told = {base_verb(each) for each in re.findall(r"[a-z]+", self.told)}
        is_noun = self.method not in ("GET", "") and self.verb_of(sentence) not in told
        return of_path if of_path and (is_other or is_noun) else sentence

    def _is_named_by_path(self) -> bool:
        """Return whether its name is made of its method and path."""
        given = {*spaced_words(f"{self.method} {self.path}").split(), "id"}
        return {*spaced_words(self.doc.name).split()} <= given

    @cached_property
    def method(self) -> str:
        """The HTTP method of an operation; "" for other functions."""
        return str(self.origin.get("method", ""))

    @cached_property
    def path(self) -> str:
        """The path of an operation; "" for other functions."""
        return str(self.origin.get("path", "")).partition("#")[0].partition("?")[0]

    @cached_property
    def operation(self) -> SpokenOperation | None:
        """Operation parsed from summary, path and parameters; None if that fails."""
        sentence = re.sub(r"^(show|tell|give) me ", r"\1 ", self.sentence)
        if re.match(r"(?:tell|show) (?:how|wh|if)", sentence):
            return None
        needed = [name for name, kind in self.kinds.items() if kind.required]
        parameters = [self._spoken(name) for name in needed]
        names = [self.doc.name, self.path, *self.kinds]
        known = {word for name in names for word in spaced_words(name).split()}
        known |= {singular(word) for word in known}
        apart = {_without_id(name) for name in needed if f"{{{name}}}" not in self.path}
        of_name = spoken_name(self.doc.name)
        has_verb = " " in of_name and of_name.split(" ")[0] in known_verbs() - {"return"}
        tells = self.verb in word_table("operations")["verbs"]["look"].split()
        of_name = of_name if has_verb and not tells else sentence
        of_path = operation_of_path(self.method, self.path)
        for each in dict.fromkeys((sentence, of_name, of_path)):
            found = read_operation(each, self.method, self.path, parameters, known, apart)
            is_act = re.search(r"\}/([a-z]+)$", self.path)  # "/shipments/{id}/redirect"
            if found and found.own is None and each != of_path and is_act:
                found = None if is_act[1] in known_verbs() and found.verb != is_act[1] else found
            if found and self._is_sound(found):
                return found
        return None

    def _is_sound(self, operation: SpokenOperation) -> bool:
        """Return whether an operation was read right: its name, or its values, have its thing.

        A sentence of prose may say anything: "Have a courier fetch your parcels".
        """
        words = spoken_name(f"{self.doc.name} {self.path}").split()
        nouns = {*words, *map(singular, words)}
        if self.method:
            told = self.sentence.partition(" ")[2]
            phrase = " ".join((operation.thing, *operation.owners, *operation.places, told))
            said = {singular(each) for each in phrase.lower().split()}
            is_placed = operation.own is not None or operation.determiner == "my"
            return is_placed or "{" in phrase or operation.sort == "search" or bool(said & nouns)
        if operation.head in PARTICLES:  # "take_back"
            return False
        verbs = {words[0], operation.verb.split(" ")[0]}
        same = (verbs <= {*row.split()} for row in word_table("operations")["verbs"].values())
        return operation.head.split(" ")[-1] in nouns and (len(verbs) == 1 or any(same))

    def is_placed(self, name: str) -> bool:
        """Return whether a parameter is in the path, or identifies the thing."""
        return name == self.primary or f"{{{name}}}" in self.path

    def _spoken(self, name: str) -> SpokenParameter:
        own = self.origin.get("parameters", {}).get(name, {})
        mark = f"{{{own.get('name')}}}"
        before, at, behind = self.path.partition(mark)
        in_path = bool(at) and own.get("in") == "path"
        nouns = [each for each in self._nouns(name) if each != "one"]
        parts = before.rstrip("/").split("/")
        if in_path and parts[-1] and "{" not in parts[-1] and not behind.startswith(("/{", ",")):
            of_path = singular(spoken_name(parts[-1]))
            if of_path.endswith("ing") and (about := _ABOUT.search(self.sentence)):
                of_path, nouns = about[1], []  # "/tracking/{code}": "where a parcel is"
            is_generic = spaced_words(name) in _GENERIC | {"name", "code", "number"}
            is_generic |= bool(nouns) and not re.search("[aeiouy]", nouns[0])  # "tmpl"
            before = f" {spoken_name('/'.join(parts[:-1]))} "
            if is_generic:
                nouns = [of_path, *nouns]
            elif not nouns or f" {nouns[0]} " not in before:  # "/invoice/files/{invoice_id}"
                nouns = [*nouns, of_path]
        if spaced_words(name) in _GENERIC:
            nouns.append("one")
        nouns = [singular(spoken_name(each)) for each in nouns]
        is_last = in_path and not behind.strip("/")
        kind = self.kinds[name].kind
        is_bound = kind in (_BOUND if in_path else _NAMING)
        is_bound |= kind == "enum" and not self.method  # zones of a garden, for example
        nouns = list(dict.fromkeys(nouns or ["one"]))
        return SpokenParameter(name, tuple(nouns), in_path, is_last, is_bound, kind == "enum")

    @cached_property
    def verb(self) -> str:
        """The first word of its sentence."""
        return self.verb_of(self.sentence)

    @staticmethod
    def verb_of(sentence: str) -> str:
        """Return the first word of a sentence."""
        return re.split(r"[ /]", sentence, maxsplit=1)[0].lower()

    @cached_property
    def name_words(self) -> str:
        """The words of its name."""
        return spaced_words(self.doc.name)

    @cached_property
    def told(self) -> str:
        """Name and first sentence, in lower case."""
        return f"{self.name_words}. {first_sentence(self.doc.description).lower()}"

    @cached_property
    def all_words(self) -> str:
        """Name, description and names of parameters, in lower case."""
        return (
            f"{self.told} {self.doc.description.lower()} {' '.join(map(spaced_words, self.kinds))}"
        )

    @cached_property
    def noun(self) -> str:
        """Noun of its subject, in the singular: the thing acted on if that has a number."""
        lists = self.verb in ("list", "find", "search", "create", "add", "tell", "make", "new")
        if self.primary and not lists and self.kinds[self.primary].kind == "identifier":
            return self.thing_nouns()[0]
        return self.noun_of_sentence

    @cached_property
    def noun_of_sentence(self) -> str:
        """What its sentence or name is about, in the singular."""
        return self.operation.head if self.operation else object_noun(self.sentence, self.doc.name)

    @cached_property
    def primary(self) -> str | None:
        """The parameter that identifies the thing acted on; None if there is none."""
        if self.operation and self.operation.own:
            return self.operation.own
        needed = {name: kind for name, kind in self.kinds.items() if kind.required}
        placed = {n: k for n, k in needed.items() if not _PLACED.search(spaced_words(n))}
        noun = self.noun_of_sentence.split(" ")[-1]
        numbered = {
            n: k for n, k in placed.items() if k.kind == "identifier" or k.topic == "proper"
        }
        for group in (
            [n for n, kind in numbered.items() if kind.topic != "postcode"],
            # zones of a garden, for example
            [n for n, k in placed.items() if k.kind == "enum" and self._may_list(n, noun, needed)],
            [n for n, kind in needed.items() if kind.kind == "person_name"],
            [n for n, kind in placed.items() if kind.kind in ("place", "free_text")],
        ):
            named = [name for name in group if self.kinds[name].topic not in _NO_THING]
            if named:
                return min(named, key=self._place)
        return None

    def _may_list(self, name: str, noun: str, needed: Collection[str]) -> bool:
        return noun in (*self.nouns(name), "something", "one") or len(needed) == 1

    def _place(self, name: str) -> int:
        """Return the position of a parameter's first mention in the sentence."""
        low = self.sentence.lower()
        places = [found.start() for n in self.nouns(name) if (found := re.search(rf"\b{n}", low))]
        place = min(places, default=1000 + list(self.kinds).index(name))
        # What stands behind "to" or "near" is where a thing goes, not the thing.
        moved = any(
            re.search(rf"\b(?:to|for|near|into|at|from|with|by|on) (?:an? |the )?{n}", low)
            for n in self.nouns(name)
        )
        return place + 2000 * moved

    @cached_property
    def other_person(self) -> str | None:
        """The parameter that names a person beside the thing; None if there is none."""
        for name in self.kinds:
            if name != self.primary and self.is_person(name):
                return name
        return None

    def is_person(self, name: str) -> bool:
        """Return whether a parameter's values are people or their numbers."""
        kind = self.kinds[name].item or self.kinds[name]
        people = {*word_table("operations")["people"].split()}
        is_numbered = kind.kind == "identifier" and people & {*self.nouns(name)[0].split()}
        return kind.kind == "person_name" or bool(is_numbered)

    def filled(self, text: str) -> str:
        """Return a phrase with the nouns for {n}, {ns} and {a}."""
        noun = self.noun
        parts = {"{n}": noun, "{ns}": plural(noun), "{a}": with_article(noun)}
        for mark, word in parts.items():
            text = text.replace(mark, word)
        return text

    def label(self, name: str) -> str:
        """Return the label of a parameter: its name without its unit and "id"."""
        return _without_id(name)

    def nouns(self, name: str) -> tuple[str, ...]:
        """Return the nouns that may precede a parameter's value: "reader", "card"."""
        said = self.operation.nouns.get(name) if self.operation else None
        return (said,) if said else self._nouns(name)

    def _nouns(self, name: str) -> tuple[str, ...]:
        """Return the nouns of its name and description."""
        words = re.sub(r" (?:id|gid) or (?:slug|name|key)$", " id", spaced_words(name)).split()
        while words and words[-1] in _ID_ENDS:
            words.pop()
        kind = self.kinds[name]
        found: list[str] = []
        if words and words[-1] not in _OTHER_ENDS:
            found.append(" ".join(singular(" ".join(words)).split()[-2:]))
        named = _NAMED.search(kind.description.lower())
        if len(words) > 1 and words[-1] in _OTHER_ENDS and named and words[0] not in named[1]:
            named = None  # the area code of a line does not say which line
        if named:
            whole = named[1].strip()
            found += [whole.rsplit("'s ", 1)[-1]] if "'s " in whole else [whole]
            found += [whole] if "'s " in whole else []
        elif words and words[-1] in _OTHER_ENDS and len(words) > 1:
            found.append(" ".join(words[:-1]))
        elif numbered := _NUMBERED.match(kind.description.lower()):
            found = found if not found or len(found[0]) > _SHORTEST_NOUN else []
            found += [numbered[1]] if numbered[1] not in _ADJECTIVES else []
        if kind.kind in ("date", "datetime"):
            found.append("day")
        listed = {
            str(value) for other, its in self.kinds.items() if other != name for value in its.values
        }
        found = [
            each for each in found if len(each.split()) <= 3 and each.split()[-1] not in listed
        ]
        return tuple(dict.fromkeys(found or ["one"]))

    def thing_nouns(self) -> tuple[str, ...]:
        """Return nouns that may precede the value of the primary parameter."""
        if self.primary is None:
            return (self.noun_of_sentence,)
        if self.operation and self.primary in self.operation.nouns:
            return (self.operation.nouns[self.primary],)
        kind = self.kinds[self.primary]
        of_name = spaced_words(self.primary).split()
        if kind.kind == "enum":
            return (self.nouns(self.primary)[0],)
        if kind.kind != "identifier":
            return ()
        if of_name[-1] == "code" or (len(of_name) == 1 and of_name[0] in _ID_ENDS):
            return (self.noun_of_sentence,)
        return self.nouns(self.primary)[:2]


def _without_id(name: str) -> str:
    """Return the words of a parameter's name without its unit and "id"."""
    words = spoken_name(name).removeprefix("body ").split()
    while len(words) > 1 and words[-1] in word_table("operations")["name_ends"].split():
        words.pop()
    return " ".join(words)
