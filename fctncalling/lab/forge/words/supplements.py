"""Supplements: the value that an earlier request left out, said in a turn of its own."""

from __future__ import annotations

from fctncalling.lab.forge.plan import PlannedCall, Value
from fctncalling.lab.forge.words.clauses import lexical
from fctncalling.lab.forge.words.grammar import Phrase, expanded
from fctncalling.lab.forge.words.inflection import sentence
from fctncalling.lab.forge.words.noun_phrases import NounPhrases
from fctncalling.lab.forge.words.tables import kind_words, patterns
from fctncalling.lab.forge.words.views import value_phrase


def supplement(value: Value, call: PlannedCall, nouns: NounPhrases) -> str | None:
    """Return a sentence that says the value and what it is."""
    parts = list(expanded(nouns.draw.choice(patterns("sentences")["missing"]), nouns.draw))
    named = any(isinstance(part, Phrase) and part.name == "noun" for part in parts)
    in_dollars = "base_currency" not in call.arguments and value.kind in ("amount", "price")
    said = value_phrase(value, nouns, with_unit=in_dollars or not (named or value.kind == "amount"))
    if said is None:
        return None
    if value.kind in ("travel_class", "insurance_type") and parts[0] == Phrase("value"):
        said = said[:1] + said[1:2].upper() + said[2:]  # behind the mark of a value
    words = kind_words(nouns.facts.kind_of(value))
    noun = words.plural if isinstance(value.value, list) and len(value.value) > 1 else words.noun
    texts = {"noun": noun, "value": said}
    return sentence(
        "".join(
            (texts.get(part.name) or lexical(part, nouns.draw))
            if isinstance(part, Phrase)
            else str(part)
            for part in parts
        )
    )
