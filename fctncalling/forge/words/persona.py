"""Persona: the manner of speaking that one user keeps through a task."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from fctncalling.forge.words.sentences import REGISTERS

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


@dataclass(frozen=True)
class Persona:
    """One user's manner: curt, polite, telling stories, or implying what they want."""

    manner: str
    mark: str  # quotation mark

    @classmethod
    def drawn(cls, draw: Random) -> Persona:
        """Return a user."""
        return cls(draw.choice(sorted(_MANNERS)), draw.choice(("'", "'", '"')))

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
