"""Second thoughts: sentences behind a request that names two values, settled or left open."""

from __future__ import annotations

SECOND_THOUGHTS = (
    ("Make it {meant}, not {other}.", "Just one, {meant} or {other}."),
    (
        "Now it should be {meant} instead of {other}.",
        "All I said yesterday was {meant} or {other}.",
    ),
    (
        "Forget {other}, I have made up my mind for {meant}.",
        "Only {other} or {meant}, I have them both in mind.",
    ),
    (
        "My first thought was {other}, and now I want {meant}.",
        "My notes say {other}, and then my calendar says {meant}.",
    ),
    (
        "We talked about {other} and settled on {meant}.",
        "We talked about {other} and then about {meant}.",
    ),
    (
        "What I want is {meant}, while {other} was a slip.",
        "One of my ideas was {meant}, while {other} was another.",
    ),
    (
        "Of the two, take {meant} and leave {other}.",
        "Of the two, only {meant} or {other} fits.",
    ),
    (
        "It was going to be {other}, but {meant} won.",
        "It may well have been {other}, or even {meant}.",
    ),
)
"""(settled, open): as many words, and each value once. In an open sentence the two values are put
in either order, so that their places say nothing.
"""
