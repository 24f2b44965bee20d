"""Directory tree of GorillaFileSystem, which its commands can turn into any graph.

`cp` of a directory shares the children and `mv` shares the whole table of contents, so a model can
build diamonds and cycles. Comparing and copying therefore visit every object once and never
recurse.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

MAX_TEXT_PIECES = 3000
"""How many names and brackets a directory's text form shows; only mismatch reports print it."""


class File:
    """Named text; equal by name and content."""

    __slots__ = ("content", "name")

    def __init__(self, name: Any, content: Any = "") -> None:
        self.name = name
        self.content = content

    def _write(self, content: Any) -> None:
        # BFCL shows this name when a directory is written to: 'Directory' object has no attribute
        # '_write'.
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and self._equals(other)

    def _equals(self, other: File) -> bool:
        return bool(self.name == other.name and self.content == other.content)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> File:
        content = (
            self.content if isinstance(self.content, str) else copy.deepcopy(self.content, memo)
        )
        twin = memo[id(self)] = File(self.name, content)
        return twin

    def __repr__(self) -> str:
        return f"<<File: {self.name}, Content: {self.content}>>"


class Directory:
    """Named directory of files and directories, in insertion order.

    Equal by name and contents, whatever the parent.
    """

    __slots__ = ("contents", "name", "parent")

    def __init__(self, name: Any, parent: Directory | None = None) -> None:
        self.name = name
        self.parent = parent
        self.contents: dict[Any, File | Directory] = {}

    def add_file(self, name: Any, content: Any = "") -> None:
        """Add a file; raises ValueError, in BFCL's words, if the name is taken."""
        if name in self.contents:
            raise ValueError(f"File '{name}' already exists in directory '{self.name}'.")
        self.contents[name] = File(name, content)

    def add_files(self, names: Sequence[str]) -> None:
        """Add new, empty files.

        Raises ValueError where a name is taken, with those before it added.
        """
        if self.contents.keys().isdisjoint(names):
            self.contents.update({name: File(name) for name in names})
            return
        for name in names:
            self.add_file(name)

    def add_directory(self, name: Any) -> Directory:
        """Add a new, empty directory and return it.

        Raises ValueError where the name is taken.
        """
        if name in self.contents:
            raise ValueError(f"Directory '{name}' already exists in directory '{self.name}'.")
        added = self.contents[name] = Directory(name, self)
        return added

    def get_item(self, name: Any) -> File | Directory | None:
        """Return the item with a name, this directory for ".", or None."""
        return self if name == "." else self.contents.get(name)

    def __eq__(self, match: object) -> bool:
        # A pair met again is taken as equal: what differs is found where it differs. So cycles, on
        # which BFCL's own comparison ends in a RecursionError, compare by what they unfold to.
        if not isinstance(match, Directory):
            return False
        pending: list[tuple[Directory, Directory]] = [(self, match)]
        compared: set[tuple[int, int]] = set()
        while pending:
            mine, theirs = pending.pop()
            if mine is theirs or (id(mine), id(theirs)) in compared:
                continue
            compared.add((id(mine), id(theirs)))
            if mine.name != theirs.name or mine.contents.keys() != theirs.contents.keys():
                return False
            for name, item in mine.contents.items():
                match = theirs.contents[name]
                if isinstance(item, Directory) and isinstance(match, Directory):
                    pending.append((item, match))
                elif (
                    isinstance(item, Directory)
                    or isinstance(match, Directory)
                    or not item._equals(match)
                ):
                    return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Directory:
        originals = self._reachable(memo)
        for original in originals:
            memo[id(original)] = Directory(original.name)
        for original in originals:
            twin: Directory = memo[id(original)]
            twin.parent = None if original.parent is None else memo[id(original.parent)]
            # A moved directory's table belongs to two directories.
            shared = memo.get(id(original.contents))
            if shared is not None:
                twin.contents = shared
                continue
            memo[id(original.contents)] = twin.contents
            for name, item in original.contents.items():
                copied = memo.get(id(item))
                twin.contents[name] = item.__deepcopy__(memo) if copied is None else copied
        return memo[id(self)]  # type: ignore[no-any-return]

    def _reachable(self, memo: dict[int, Any]) -> list[Directory]:
        """Return the directories connected with this one that are not in the memo."""
        pending: list[Directory] = [self]
        seen, reachable = {id(self)}, list[Directory]()
        while pending:
            directory = pending.pop()
            reachable.append(directory)
            near = [item for item in directory.contents.values() if isinstance(item, Directory)]
            for neighbour in near if directory.parent is None else [directory.parent, *near]:
                if id(neighbour) not in seen and id(neighbour) not in memo:
                    seen.add(id(neighbour))
                    pending.append(neighbour)
        return reachable

    def _hashed_state(self) -> list[Any]:
        """Return all items connected with this directory, flat and in order.

        Of each directory name, parent and entries; a number instead of what stood there before.
        """
        numbers: dict[int, int] = {}
        graph: list[Any] = []

        def number(thing: object) -> int:
            return numbers.setdefault(id(thing), len(numbers))

        for directory in self._reachable({}):
            parent = None if directory.parent is None else number(directory.parent)
            is_numbered = id(directory.contents) in numbers
            graph += [number(directory), directory.name, parent, number(directory.contents)]
            if is_numbered:
                continue
            graph.append(len(directory.contents))
            for name, item in directory.contents.items():
                new = item if isinstance(item, File) and id(item) not in numbers else None
                graph += [name, number(item), new is not None]
                if new is not None:
                    graph += [new.name, new.content]
        return graph

    def __repr__(self) -> str:
        pieces = list(islice(self._pieces(), MAX_TEXT_PIECES + 1))
        return "".join(pieces[:MAX_TEXT_PIECES]) + ("…" if len(pieces) > MAX_TEXT_PIECES else "")

    def _pieces(self) -> Iterator[str]:
        parent = self.parent.name if self.parent else None
        yield f"<Directory: {self.name}, Parent: {parent}, Contents: {{"
        for position, (name, item) in enumerate(self.contents.items()):
            yield f"{', ' if position else ''}{name!r}: "
            if isinstance(item, Directory):
                yield from item._pieces()
            else:
                yield repr(item)
        yield "}>"
