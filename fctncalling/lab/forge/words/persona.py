"""Persona: the manner of speaking that one user keeps through a task, and what they talk about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from fctncalling.lab.forge.words.clauses import SETTING, worded
from fctncalling.lab.forge.words.sentences import REGISTERS
from fctncalling.lab.forge.words.tables import patterns

_FORMS = {"do": 5.0, "want": 2.0, "wish": 1.5, "know": 2.0, "ask": 2.0, "say": 2.0}
_MANNERS = {
    "curt": {"do": 1.5, "want": 1.5, "say": 0.4},
    "polite": {"do": 1.5, "say": 0.7},
    "story": {"say": 1.5},
    "implicit": {"do": 0.4, "know": 1.5, "ask": 2.0, "say": 4.0},
}
_REGISTERS = {
    "curt": (5, 3, 1),
    "polite": (1, 2, 5),
    "story": (2, 3, 3),
    "implicit": (3, 3, 2),
}


_PLACE = re.compile(rf"<({'|'.join(SETTING)})>")
Setting = Mapping[str, tuple[str, ...]]  # phrase -> what it is, and a second one beside it


@dataclass(frozen=True)
class Persona:
    """One user's manner: curt, polite, telling stories, or implying what they want."""

    manner: str
    mark: str  # quotation mark
    setting: Setting = field(repr=False)

    @classmethod
    def drawn(cls, draw: Random) -> Persona:
        """Return a user."""
        manner, mark = draw.choice(sorted(_MANNERS)), draw.choice(("'", "'", '"'))
        setting: dict[str, tuple[str, ...]] = {}
        for name in SETTING:
            drawn = draw.sample(patterns("lexicon")[name], 2)
            setting[name] = tuple(_placed(worded(each, draw), setting) for each in drawn)
        return cls(manner, mark, setting)

    def told(self, sentence: str) -> str:
        """Return a sentence with this user's own project, colleague, ... in their places."""
        return _placed(sentence, self.setting)

    def forms(self, draw: Random) -> list[str]:
        """Return the forms of a request, in the order in which this user tries them."""
        liking = _MANNERS[self.manner]
        # Weighted order without replacement: the keys u ** (1 / weight), largest first.
        keys = {
            form: draw.random() ** (1 / (weight * liking.get(form, 1.0)))
            for form, weight in _FORMS.items()
        }
        return sorted(keys, key=keys.__getitem__, reverse=True)

    def register(self, draw: Random) -> str:
        """Return how polite the next sentence is."""
        return draw.choices(REGISTERS, _REGISTERS[self.manner])[0]


def _placed(text: str, setting: Setting) -> str:
    times = Counter[str]()

    def put(found: re.Match[str]) -> str:
        times[found[1]] += 1
        return setting[found[1]][min(times[found[1]], 2) - 1]

    return _PLACE.sub(put, text)
