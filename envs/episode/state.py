"""State of one episode, and the content hash of its tools' state.

Content hashes are of objects of any class: equal only if all that they contain is equal. An object
is written as a sequence of texts, each container's kind and number of parts before them, so that
two contents never share a sequence. What holds state that Python cannot read (a generator, a lock,
a connection) has no hash. Globals of modules are not looked at.
"""

from __future__ import annotations

import copy
import copyreg
import hashlib
import sys
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from types import CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fctncalling.data.types import Episode, Message, StepRecord, Task, TurnResults, Verdict
from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.tools.bfcl.long_context import JsonCachedList
from fctncalling.envs.user_tools import UserTools

_SHARED = ("task", "session")  # the task never changes; the session copies its state itself


@dataclass
class EpisodeState:
    """Mutable state of one episode; a step changes it through its methods."""

    task: Task
    session: ToolSession | None  # None where nothing is executed (single turn)
    turn: int = 0
    steps_in_turn: int = 0  # steps of this turn that did not end it
    results: list[str] = field(default_factory=list)  # of this turn
    turns: list[TurnResults] = field(default_factory=list)  # the turns that ended
    steps: list[StepRecord] = field(default_factory=list)
    conversation: list[Message] = field(default_factory=list)
    last_message: str | None = None  # the last one that called nothing: an agentic task's answer
    paid: float = 0.0  # rewards so far, added up in order
    # turns in which something had to be forgiven, where the reward is strict
    forgiven: set[int] = field(default_factory=set)
    verdict: Verdict | None = None
    strict_verdict: Verdict | None = None  # where it is asked for
    terminated: bool = False
    truncated: bool = False
    invalid_reason: str | None = None  # why infrastructure failed
    tools_hash: str = ""  # of the tools' state; "" where calls may have changed it
    past_hash: str = ""  # of the turns that ended
    end_hashes: list[str] = field(default_factory=list)  # of the tools' state, of each such turn
    unreadable: str = ""  # the tool whose state could not be read, and what it holds

    @property
    def is_over(self) -> bool:
        """Whether the episode has terminated or been truncated."""
        return self.terminated or self.truncated

    @property
    def in_last_turn(self) -> bool:
        """Whether the episode is in the last turn of its task."""
        return self.turn + 1 >= len(self.task.question)

    def has_function(self, name: str) -> bool:
        """Whether the task's tools have a function of this name.

        False if the task executes no calls.
        """
        return self.session is not None and self.session.has_function(name)

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Add messages to the conversation."""
        self.conversation += messages

    def execute(self, calls: Sequence[str], tools: UserTools) -> tuple[str, ...]:
        """Execute the calls of one message; record and return their result texts.

        Raises InfrastructureError.
        """
        if not calls:
            return ()
        if self.session is None:
            raise RuntimeError(
                f'task "{self.task.id}" has no tools: calls of {self.task.category} are not '
                "executed"
            )
        self.tools_hash = ""
        boxed = {} if tools.box is None else tools.call_box(calls, self.session)
        texts = [
            boxed[index] if index in boxed else self.session.execute(call)
            for index, call in enumerate(calls)
        ]
        # The box's results are judged as BFCL judges a function that the task does not have: a tool
        # that repeats its argument could else imitate any result.
        names = {index: calls[index].partition("(")[0].strip() for index in boxed}
        self.results += [
            f"Error during execution: name '{names[index]}' is not defined"
            if index in names
            else text
            for index, text in enumerate(texts)
        ]
        return tuple(texts)

    def count_step(self) -> int:
        """Count a step that does not end its turn; return the turn's number of such steps."""
        self.steps_in_turn += 1
        return self.steps_in_turn

    def end_turn(self, *, last: bool) -> None:
        """End the turn: record its results and the tools' states for the checker.

        Go on to the next turn unless it was the last. Raises InfrastructureError.
        """
        self.terminated = last
        if self.session is not None:
            record = TurnResults(tuple(self.results), self.session.public_state())
            self.turns.append(record)
            self.end_hashes.append(self.hash_of_tools())
            results = sorted(set(self.results))
            self.past_hash = hash_of_text(repr([self.past_hash, results, self.hash_of_tools()]))
        if not last:
            self.turn += 1
            self.steps_in_turn = 0
            self.results = []

    def add_step(self, step: StepRecord) -> None:
        """Add a step to the episode, with its reward."""
        self.paid += step.reward
        self.steps.append(step)

    def fail(self, text: str, reason: str) -> None:
        """Mark the episode as invalid: infrastructure failed in this step."""
        self.invalid_reason = reason
        self.terminated = False
        self.truncated = True
        self.steps.append(StepRecord(self.turn, text))

    def to_episode(self, seed: int | None) -> Episode:
        """Convert the state to the Episode so far."""
        return Episode(
            task_id=self.task.id,
            category=self.task.category,
            steps=tuple(self.steps),
            verdict=self.verdict,
            terminated=self.terminated,
            truncated=self.truncated,
            invalid=self.invalid_reason is not None,
            seed=seed,
        )

    def hash_of_tools(self) -> str:
        """Hash the tools' state; computed anew only after calls were executed.

        "" where it cannot be read: `unreadable` then says why.
        """
        if self.session is not None and not self.tools_hash:
            try:
                self.tools_hash = content_hash(self.session.hashed_state())
            except UnreadableStateError as error:
                names = ", ".join(self.task.involved_classes)
                self.unreadable = f"the state of {names} holds {error}"
        return self.tools_hash

    def get_state(self) -> dict[str, Any]:
        """Copy the state, the tools' included."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _SHARED}
        session = None if self.session is None else self.session.get_state()
        return {"task_id": self.task.id, "session": session, "play": copy.deepcopy(values)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `get_state` of the same task; the state stays usable."""
        for name, value in copy.deepcopy(dict(state["play"])).items():
            setattr(self, name, value)
        if self.session is not None:
            self.session.set_state(state["session"])


@contextmanager
def reraise_as_infrastructure(culprit: str) -> Iterator[None]:
    """Context manager: reraise any error as InfrastructureError, naming the culprit."""
    try:
        yield
    except InfrastructureError:
        raise
    except Exception as error:
        raise InfrastructureError(f"{culprit}: {type(error).__name__}: {error}") from error


MAX_PARTS = 1_000_000  # of one state; more takes seconds at every step
MAX_BYTES = 1 << 28  # of its arrays
_MAX_BITS = 10_000  # of an integer as a number: the interpreter writes out some 14,000
_ATOMS = frozenset({str, int, float, bool, bytes, complex, type(None), type(...)})
_HEAP_TYPE = 1 << 9  # flag of classes that are not C's own: their attributes can be set
_NOTHING: dict[str, Any] = {}  # where there are no attributes
_SLOT_BYTES = 8  # of an object, for each of its slots

Parts = Sequence[Any]
# Class -> function that returns an object's parts; called on the class, so overrides in subclasses
# are bypassed.
_READERS: dict[type, Callable[[Any], Parts]] = {
    np.ndarray: lambda value: [repr(value.dtype), value.shape, _numbers(value)],
    FunctionType: lambda value: _parts_of_function(value),
    CodeType: lambda value: [value.co_code, value.co_names, value.co_consts, value.co_freevars],
    MethodType: lambda value: [value.__self__, value.__func__],
    MappingProxyType: lambda value: [dict(value)],
    OrderedDict: lambda value: [item for pair in OrderedDict.items(value) for item in pair],
    defaultdict: lambda value: [value.default_factory, *_pairs(value)],
    dict: lambda value: _pairs(value),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: list(tuple.__iter__(value)),
    deque: lambda value: [value.maxlen, *deque.__iter__(value)],
    set: lambda value: _sorted_texts(set.__iter__(value)),
    frozenset: lambda value: _sorted_texts(frozenset.__iter__(value)),
    bytearray: lambda value: [bytearray.hex(value)],
    str: lambda value: [str.__str__(value)],
    bytes: lambda value: [bytes.hex(value)],
    int: lambda value: [int.__int__(value)],
    float: lambda value: [float.__float__(value)],
}


class UnreadableStateError(Exception):
    """Error of an object with unreadable state; the message names the class."""


def content_hash(value: Any) -> str:
    """Hash the contents of an object, private attributes included.

    Kinds of containers count, the order of dicts, classes and their own attributes, and which
    parts are one object. A class that knows better what decides its future has a method
    `_hashed_state`, which returns it. Raises UnreadableStateError.
    """
    try:
        texts = "\n".join(_texts(value))
    except UnreadableStateError:
        raise
    except Exception as error:  # whatever a class of a user raises
        what = f"what raises {type(error).__name__} when it is read"
        raise UnreadableStateError(what) from error
    return hash_of_text(texts)


def hash_of_text(text: str) -> str:
    """Hash a text to 16 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _texts(value: Any) -> list[str]:
    """Serialize an object to texts; iterative, so that any depth can be read."""
    texts: list[str] = []
    # Index of each mutable object's text by id: aliasing is state, as a change to one shows in all.
    numbers: dict[int, int] = {}
    alive: list[Parts] = []  # keeps temporary parts alive, so that no id is used twice
    size, stack = 0, [value]
    while stack:
        value = stack.pop()
        kind: Any = type(value)
        if kind in _ATOMS:
            texts.append(repr(value) if kind is not int else _digits(value))
            continue
        if kind.__hash__ is None or kind.__hash__ is object.__hash__:
            number = numbers.setdefault(id(value), len(texts))
            if number != len(texts):
                texts.append(f"@{number}")  # the same object once more
                continue
        if kind is JsonCachedList:
            kind = list  # as its copies are
        if kind is list or kind is dict or kind is tuple:
            if (flat := _flat(value, kind)) is not None:
                texts.append(flat)
                continue
            parts: Parts = _pairs(value) if kind is dict else value
            texts.append(f"{kind.__name__} {len(parts)}")
        else:
            size += getattr(value, "nbytes", 0) if _is_array(kind) else 0
            parts = [] if size > MAX_BYTES else _reader(kind)(value)
            alive.append(parts)
            texts.append(f"{_name(kind)} {len(parts)}")
        if len(texts) + len(stack) + len(parts) > MAX_PARTS or size > MAX_BYTES:
            raise UnreadableStateError(f"{_name(kind)}, more than can be read at each step")
        stack += reversed(parts)
    return texts


def _digits(value: int) -> str:
    return hex(value) if value.bit_length() > _MAX_BITS else repr(value)


def _flat(value: Any, kind: type) -> str | None:
    """Return the repr of a container of atoms, fast; None for other contents."""
    if not _ATOMS.issuperset(map(type, value)):
        return None
    if kind is dict and not _ATOMS.issuperset(map(type, value.values())):
        return None
    try:
        return repr(value)
    except ValueError:  # an integer over the interpreter's limit of digits
        return None


def _pairs(value: dict[Any, Any]) -> list[Any]:
    return [item for pair in dict.items(value) for item in pair]


def _sorted_texts(elements: Any) -> list[str]:
    """Return the texts of a set's elements in an order that is the same in every process."""
    try:
        return sorted("\n".join(_texts(element)) for element in elements)
    except RecursionError:
        raise UnreadableStateError("sets nested too deep") from None


@lru_cache(maxsize=1024)
def _reader(kind: Any) -> Callable[[Any], Parts]:
    """Return the function that reads the parts of a class's objects; not for list, dict, tuple."""
    if (own := getattr(kind, "_hashed_state", None)) is not None:
        return lambda value: [own(value)]
    if issubclass(kind, Enum):
        return lambda value: [object.__getattribute__(value, "_value_")]
    if issubclass(kind, type):
        return lambda value: [_name(value), _class_attributes(value, functions=True)]
    if kind in _READERS:
        return _READERS[kind]
    for base, read in _READERS.items():
        if issubclass(kind, base):
            return lambda value: [read(value), *_attributes(value, kind)]
    if _is_plain(kind):
        return lambda value: _attributes(value, kind)
    return lambda value: [*_reduced(value, kind), *_attributes(value, kind)]


def _attributes(value: Any, kind: Any) -> list[Any]:
    """Return the attributes of an object and of its classes by name, slots included."""
    named: dict[str, Any] = getattr(value, "__dict__", _NOTHING)
    if slots := _slots(kind):
        values = {name: getattr(value, name, _NOTHING) for name in slots}
        named = {**named, **{name: slot for name, slot in values.items() if slot is not _NOTHING}}
    content = {name: named[name] for name in sorted(named)}
    return [content, _class_attributes(kind)] if _foreign_classes(kind) else [content]


def _class_attributes(kind: type, *, functions: bool = False) -> list[Any]:
    """Return the attributes of a class and its bases that may change."""
    return [
        item
        for owner in _foreign_classes(kind)
        for name, value in sorted(vars(owner).items())
        if name[:2] != "__" and name != "_abc_impl"
        if not hasattr(type(value), "__get__") or (functions and type(value) is FunctionType)
        for item in (name, value)
    ]


def _package(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


@lru_cache(maxsize=1024)
def _foreign_classes(kind: type) -> tuple[type, ...]:
    """Return a class and its bases that users wrote: their attributes may be state."""
    ours = ("fctncalling", *sys.stdlib_module_names)
    return tuple(
        base for base in kind.__mro__ if _package(base) not in ours and base.__flags__ & _HEAP_TYPE
    )


@lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(copyreg._slotnames(kind))  # type: ignore[attr-defined]


@lru_cache(maxsize=1024)
def _is_plain(kind: type) -> bool:
    """Whether a class's objects hold only attributes, no data in C.

    Classes of the standard library are not plain: some of their attributes are caches, which
    pickling leaves out.
    """
    if _package(kind) in sys.stdlib_module_names or kind.__itemsize__:
        return False
    fields = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0) + len(_slots(kind))
    return kind.__basicsize__ <= object.__basicsize__ + _SLOT_BYTES * fields


def _reduced(value: Any, kind: type) -> list[Any]:
    """Return the parts that pickle would store; UnreadableStateError for unpicklable objects."""
    name = getattr(value, "__qualname__", None)
    if callable(value) and isinstance(name, str) and _is_global(value, name):
        return [str(getattr(value, "__module__", None)), name]  # functions in C
    try:
        with warnings.catch_warnings():  # of iterators, which later Pythons do not pickle
            warnings.simplefilter("ignore", DeprecationWarning)
            reduce = copyreg.dispatch_table.get(kind)
            reduced: Any = reduce(value) if reduce else value.__reduce_ex__(4)
        if isinstance(reduced, str):
            return [reduced] if _is_global(value, reduced) else _unreadable(kind)
        fields = list(reduced[:5])
        function, arguments, state, items, pairs = fields + [None] * (5 - len(fields))
        return [function, arguments, state, *map(_listed, (items, pairs))]
    except Exception as error:
        raise UnreadableStateError(_name(kind)) from error


def _listed(items: Any) -> list[Any] | None:
    return None if items is None else list(items)


def _unreadable(kind: type) -> list[Any]:
    raise UnreadableStateError(_name(kind))


def _parts_of_function(value: FunctionType) -> list[Any]:
    """Return a function's name and state, with its code if the name does not lead to it."""
    cells = list[Any]()
    for cell in value.__closure__ or ():
        with suppress(ValueError):  # empty
            cells.append(cell.cell_contents)
    code = None if _is_global(value, value.__qualname__) else value.__code__
    name = [str(value.__module__), value.__qualname__]
    return [*name, code, value.__defaults__, value.__kwdefaults__, cells, value.__dict__]


def _is_global(value: Any, name: str) -> bool:
    """Whether a dotted name in the object's module refers to the object."""
    try:
        module = sys.modules[getattr(value, "__module__", None) or type(value).__module__]
        return attrgetter(name)(module) is value
    except (AttributeError, KeyError):
        return False


@lru_cache(maxsize=1024)
def _is_array(kind: type) -> bool:
    return any(_package(base) in ("numpy", "torch") for base in kind.__mro__)


@lru_cache(maxsize=1024)
def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _numbers(array: NDArray[Any]) -> Any:
    return array.tolist() if array.dtype.hasobject else hashlib.sha256(array.tobytes()).hexdigest()
