"""Second thoughts: sentences behind a request that names two values, settled or left open.

Whether they settle it is decided by how words go together, never by a word: each word of the
tables stands as often in settled sentences as in open ones.
"""

from __future__ import annotations

import random
from typing import NamedTuple


class SecondThoughts(NamedTuple):
    """Two sentences of as many words, {meant} and {other} once in each.

    In an open one the two values are put in either order, so that their places say nothing.
    """

    settled: str
    open: str


def second_thoughts(rng: random.Random) -> SecondThoughts:
    """Return a pair of sentences."""
    return rng.choice((_minds, _merits, _people))(rng)


_ADVERBS = (
    ("quite", "hardly"), ("now", "not"), ("really", "scarcely"), ("by now", "no longer"),
    ("in every way", "in no way"), ("very much", "not really"),
)  # fmt: skip
_SURE = ("certain", "decided", "sure", "convinced", "resolved", "confident")
_UNSURE = ("uncertain", "undecided", "unsure", "unconvinced", "doubtful", "hesitant")
_MINDS = (
    "I am {} about {{meant}} over {{other}}.",
    "When it comes to {{meant}} over {{other}}, I am {}.",
    "As for {{meant}} rather than {{other}}, I feel {}.",
    "That it should not be {{other}} but {{meant}} is what I am {} about.",
    "To go with {{meant}} and leave {{other}} is what I am {} about.",
    "Instead of {{other}} to take {{meant}} is something I am {} about.",
)


def _minds(rng: random.Random) -> SecondThoughts:
    """Return sentences on a mind: "now sure" and "not unsure" settle it, two others do not."""
    template, (yes, no) = rng.choice(_MINDS), rng.choice(_ADVERBS)
    settled = rng.choice(((yes, _SURE), (no, _UNSURE)))
    unsettled = rng.choice(((no, _SURE), (yes, _UNSURE)))
    told = (f"{adverb} {rng.choice(states)}" for adverb, states in (settled, unsettled))
    return SecondThoughts(*map(template.format, told))


_GOOD = (
    "works for me", "would suit me", "is all right", "feels right here", "has my vote",
    "would do nicely", "pleases us all", "is good enough",
)  # fmt: skip
_BAD = (
    "fails me here", "would annoy me", "is no good", "feels wrong here", "has real drawbacks",
    "would do badly", "bothers us all", "is bad enough",
)  # fmt: skip
_MERITS = (
    "Of the two, {} {} and {} {}.",
    "I slept on it: {} {}, and {} {}.",
    "If you ask me, {} {}, while {} {}.",
    "Now that I see both, {} {} and {} {}.",
    "I have to say that {} {} and that {} {}.",
    "Just so you know, {} {}, {} {}.",
)


def _merits(rng: random.Random) -> SecondThoughts:
    """Return sentences that weigh: one value against the other, or both alike."""
    template, good, bad = rng.choice(_MERITS), rng.sample(_GOOD, 2), rng.sample(_BAD, 2)
    parts = [("{meant}", good[0]), ("{other}", bad[0])]
    rng.shuffle(parts)
    first, second = rng.choice((good, bad))
    return SecondThoughts(
        template.format(*parts[0], *parts[1]), template.format("{meant}", first, "{other}", second)
    )


_PEOPLE = (
    "my sister", "my boss", "my neighbor", "my uncle", "my colleague", "my landlord", "my coach",
    "my daughter", "my assistant",
)  # fmt: skip
_VOTES = (
    "Between us, {0} says {{{2}}}, {1} says {{{3}}}, and {4} decides, not {5}.",
    "At home {0} would take {{{2}}} and {1} {{{3}}}; it is up to {4} and not to {5}.",
    "So far {0} voted for {{{2}}}, {1} for {{{3}}}, and {4} has the last word, not {5}.",
    "Mind that {0} likes {{{2}}}, {1} likes {{{3}}}, and what counts is {4}, not {5}.",
    "It seems {0} asked for {{{2}}} and {1} for {{{3}}}: listen to {4}, never to {5}.",
)


def _people(rng: random.Random) -> SecondThoughts:
    """Return sentences of the same words: one of two who have a say decides, or a third one."""
    template, (first, second, third) = rng.choice(_VOTES), rng.sample(_PEOPLE, 3)
    voters = (first, second)
    meant = rng.randrange(2)
    slots = ("meant", "other") if meant == 0 else ("other", "meant")
    return SecondThoughts(
        template.format(first, second, *slots, voters[meant], third),
        template.format(first, second, *slots, third, voters[meant]),
    )
