"""Parcel tasks: the knowledge is split between roles, and each half alone is not enough.

A parcel goes to the city where a person lives, in the box that a thing needs. Addresses and boxes
are two pieces of knowledge, drawn anew for each task: whoever has only one of them can guess the
other half at best.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from fctncalling.data.types import FunctionDoc, Task

PEOPLE = ("anna", "ben", "carl", "dora", "emma", "finn", "gina", "hugo")
THINGS = ("lamp", "chair", "clock", "kite", "vase", "drum", "mirror", "globe")
CITIES = (
    *("rome", "oslo", "paris", "lima", "cairo", "delhi"),
    *("quito", "sofia", "tokyo", "turin", "vienna", "york"),
)
BOXES = ("tube", "crate", "bag", "case", "tin", "sack", "tray", "barrel")
TABLE_SIZE = 3  # default: people with an address, and things with a box, of a task
_HELD_OUT_SHARE = 10  # one task in so many is held out
SEND = FunctionDoc(
    "send",
    "Send a parcel to a city, in a box.",
    {
        "type": "dict",
        "properties": {
            "thing": {"type": "string", "description": "What is sent."},
            "box": {"type": "string", "description": "The box that it needs."},
            "city": {"type": "string", "description": "Where the person lives who gets it."},
        },
        "required": ["thing", "box", "city"],
    },
)


def parcel_tasks(
    split: str, count: int, *, seed: int = 0, table_size: int = TABLE_SIZE
) -> list[Task]:
    """Return the first `count` parcel tasks of a split, the same on every machine.

    None of one split is in the other. `table_size`, 1 to 8: rows of each half of the knowledge;
    with 1 a role has to say what it knows, with more to find it first.
    """
    if not 1 <= table_size <= len(PEOPLE):
        raise ValueError(f"table_size: got {table_size}, expected 1 to {len(PEOPLE)}")
    return [_parcel_task(split, number, seed, table_size) for number in range(count)]


def _parcel_task(split: str, number: int, seed: int, size: int) -> Task:
    generator = np.random.default_rng([seed, split == "held_out", number])
    while True:
        people, cities = _drawn(generator, PEOPLE, size), _drawn(generator, CITIES, size)
        things, boxes = _drawn(generator, THINGS, size), _drawn(generator, BOXES, size)
        person, thing = (int(index) for index in generator.integers(size, size=2))
        text = f"{people} {cities} {things} {boxes} {person} {thing}"
        if (zlib.crc32(text.encode()) % _HELD_OUT_SHARE == 0) == (split == "held_out"):
            break
    return Task(
        f"{split}_{number}",
        "simple_python",
        [[{"role": "user", "content": f"Send the {things[thing]} to {people[person]}."}]],
        (SEND,),
        [{"send": {"thing": [things[thing]], "box": [boxes[thing]], "city": [cities[person]]}}],
        extra={"knowledge": {"addresses": _table(people, cities), "boxes": _table(things, boxes)}},
    )


def _drawn(generator: np.random.Generator, words: Sequence[str], count: int) -> list[str]:
    """Draw distinct words at random."""
    return [words[int(index)] for index in generator.permutation(len(words))[:count]]


def _table(keys: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True))
