"""Kinds of state that a user's tool may hold: two values whose next results differ."""

from __future__ import annotations

import itertools
import random
import re
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from io import BytesIO, StringIO
from pathlib import PurePosixPath
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np


class Kind(NamedTuple):
    """Kind of state: how the first or the second value is made, and what is told of one."""

    make: Callable[[bool], Any]
    tell: Callable[[Any], Any] = repr
    readable: bool = True


class TaggedList(list[Any]):
    tag: int


class TaggedDict(dict[Any, Any]):
    tag: int


class Slotted:
    __slots__ = ("unset", "value")

    def __init__(self, value: Any) -> None:
        self.value = value


class Node:
    def __init__(self, following: Any) -> None:
        self.following = following


@dataclass(frozen=True)
class Point:
    x: int


class Pair(NamedTuple):
    x: int


class Colour(Enum):
    RED = 1
    BLUE = 2


class OddRandom(random.Random):
    odd: bool


def tagged(value: Any, tag: object) -> Any:
    value.tag = tag
    return value


def advanced(iterator: Iterator[Any], steps: int) -> Iterator[Any]:
    for _ in range(steps):
        next(iterator)
    return iterator


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def linked(length: int) -> Node | None:
    node = None
    for _ in range(length):
        node = Node(node)
    return node


def count_links(node: Any) -> int:
    return 0 if node is None else 1 + count_links(node.following)


def at(stream: Any, place: int) -> Any:
    stream.seek(place)
    return stream


def moved(second: bool) -> OrderedDict[str, int]:
    ordered = OrderedDict(a=1, b=2)
    ordered.move_to_end("a", last=second)
    return ordered


def owner(second: bool) -> Any:
    return type("Owner", (), {"total": int(second)})()


def numbered(second: bool) -> Callable[[], int]:
    number = int(second)
    return lambda: number


def default(second: bool) -> Callable[[], list[int]]:
    def returned(seen: list[int] = [int(second)]) -> list[int]:  # noqa: B006 - the state meant
        return seen

    return returned


def held(second: bool) -> Any:
    lock = Lock()
    if second:
        lock.acquire()
    return lock


def shared(second: bool) -> list[list[int]]:
    one: list[int] = []
    return [one, [] if second else one]


def grown(value: list[list[int]]) -> list[list[int]]:
    value[0].append(1)
    return value


def objects(*values: Any) -> Any:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def cyclic(second: bool) -> list[Any]:
    ring: list[Any] = [int(second)]
    ring.append(ring)
    return ring


def first(iterator: Iterator[Any]) -> Any:
    return next(iterator, None)


KINDS: dict[str, Kind] = {
    "array of numbers": Kind(lambda b: np.array([[0, b], [0, 0]], dtype=int)),
    "array of objects": Kind(lambda b: objects([], {"x": b}), lambda v: v.tolist()),
    "array's type": Kind(lambda b: np.zeros(2, np.float32 if b else np.int32)),
    "array's shape": Kind(lambda b: np.zeros((2, 3) if b else (3, 2))),
    "numpy's number": Kind(np.float32, float),
    "RandomState": Kind(lambda b: np.random.RandomState(b), lambda v: v.randint(10**9)),
    "Generator": Kind(lambda b: np.random.default_rng(b), lambda v: v.integers(10**9)),
    "array.array": Kind(lambda b: array("i", [1, b])),
    "deque's bound": Kind(lambda b: deque([1], 1 + b), lambda v: (v.append(2), list(v))),
    "deque": Kind(lambda b: deque([b, not b])),
    "list with attribute": Kind(lambda b: tagged(TaggedList(), b), lambda v: v.tag),
    "dict with attribute": Kind(lambda b: tagged(TaggedDict(), b), lambda v: v.tag),
    "StringIO": Kind(lambda b: at(StringIO("ab"), b), lambda v: v.read()),
    "BytesIO": Kind(lambda b: at(BytesIO(b"ab"), b), lambda v: v.read()),
    "pattern": Kind(lambda b: re.compile("ab" if b else "a.")),
    "pattern's flags": Kind(lambda b: re.compile("a", re.I if b else 0)),
    "iterator": Kind(lambda b: advanced(iter([1, 2, 3]), b), first),
    "cycle": Kind(lambda b: advanced(itertools.cycle("abc"), b), first),
    "count": Kind(itertools.count, first),
    "mappingproxy": Kind(lambda b: MappingProxyType({"a": b})),
    "function": Kind(lambda b: (lambda: 1) if b else (lambda: 2), lambda v: v()),
    "closure": Kind(numbered, lambda v: v()),
    "function's default": Kind(default, lambda v: v()),
    "partial": Kind(lambda b: partial(int, str(int(b))), lambda v: v()),
    "method": Kind(lambda b: str.upper if b else str.lower, lambda v: v("Ab")),
    "bound method": Kind(lambda b: [3, b].index, lambda v: v.__self__),
    "type": Kind(lambda b: int if b else str, lambda v: v()),
    "class attribute": Kind(owner, lambda v: type(v).total),
    "class": Kind(lambda b: type(owner(b)), lambda v: v.total),
    "defaultdict's factory": Kind(lambda b: defaultdict(int if b else list), lambda v: v["new"]),
    "order of a dict": Kind(lambda b: {"a": 1, "b": 2} if b else {"b": 2, "a": 1}, list),
    "OrderedDict": Kind(moved, list),
    "Counter": Kind(lambda b: Counter("ab" if b else "aa")),
    "key 1 and '1'": Kind(lambda b: {1: "x"} if b else {"1": "x"}),
    "element 1 and '1'": Kind(lambda b: {1} if b else {"1"}),
    "set and list": Kind(lambda b: {1} if b else [1]),
    "set and frozenset": Kind(lambda b: {1} if b else frozenset({1})),
    "list and tuple": Kind(lambda b: [1] if b else (1,)),
    "mixed keys, deep": Kind(lambda b: {1: nested({"a": b, 2: 0}, 40), "x": 0}),
    "lists, deep": Kind(lambda b: nested(b, 300)),
    "linked list": Kind(lambda b: linked(200 + b), count_links),
    "ring": Kind(cyclic, lambda v: v[0]),
    "one list twice": Kind(shared, grown),
    "slots": Kind(Slotted, lambda v: v.value),
    "dataclass": Kind(lambda b: Point(b)),
    "named tuple": Kind(lambda b: Pair(b)),
    "member of an Enum": Kind(lambda b: Colour(1 + b)),
    "date": Kind(lambda b: date(2024, 1, 1 + b)),
    "timedelta": Kind(lambda b: timedelta(b)),
    "Decimal": Kind(lambda b: Decimal("1.0" if b else "1.00")),
    "Fraction": Kind(lambda b: Fraction(b)),
    "complex": Kind(lambda b: complex(0, b)),
    "bytes": Kind(lambda b: b"a" if b else b"b"),
    "bytes and text": Kind(lambda b: b"a" if b else "a"),
    "bytearray": Kind(lambda b: bytearray([b])),
    "Random": Kind(lambda b: random.Random(b), lambda v: v.random()),
    "Random with attribute": Kind(lambda b: tagged(OddRandom(1), b), lambda v: v.tag),
    "UUID": Kind(lambda b: UUID(int=b)),
    "path": Kind(lambda b: PurePosixPath("a", "b" * b)),
    "integer of many digits": Kind(lambda b: 10**5000 + b, lambda v: v % 10),
    "-0.0": Kind(lambda b: -0.0 if b else 0.0),
    "True and 1": Kind(lambda b: True if b else 1),
    "1 and 1.0": Kind(lambda b: 1 if b else 1.0),
    "generator": Kind(lambda b: (each for each in [b]), first, readable=False),
    "lock": Kind(held, lambda v: v.locked(), readable=False),
    "system's randomness": Kind(
        lambda b: random.SystemRandom(), lambda v: v.random(), readable=False
    ),
    "view of a dict": Kind(lambda b: {"a": b}.values(), list, readable=False),
}
