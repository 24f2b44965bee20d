"""Scenes of the multi-turn tasks: a stateful class, its next requests, and the calls they need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from fctncalling.lab.embedded.vocabulary import RejectedDraw, VocabularyDraw

BFCL_CALL = tuple[str, dict[str, Any]]


FILE_KINDS = ("move", "copy", "delete", "read", "write", "count", "search")


@dataclass(frozen=True)
class UserRequest:
    """One thing a user asks: the kind of phrase, the words that fill it, the call that does it."""

    kind: str
    slots: dict[str, Any]
    call: BFCL_CALL
    needs_history: bool = False  # cannot be answered from the newest message alone


@dataclass
class Scene(ABC):
    """Stateful class in an initial state.

    `draw_request` draws the next request and records its effects.
    """

    draw: VocabularyDraw
    distractor_functions: tuple[str, ...] = ()
    class_name: str = ""

    @abstractmethod
    def initial_config(self) -> dict[str, Any]:
        """Return BFCL's initial_config of the class, fixed when the scene was made."""

    @abstractmethod
    def kinds(self) -> dict[str, bool]:
        """Return the kinds of request possible now, each with whether it needs history."""

    @abstractmethod
    def draw_request(self, kind: str) -> UserRequest:
        """Return a request of this kind and update the scene.

        Raises RejectedDraw if none fits.
        """


@dataclass
class FileScene(Scene):
    """A small folder tree.

    'it' is the file last named, 'there' the folder last named, 'first' the listing's first.
    """

    class_name: str = "GorillaFileSystem"
    distractor_functions: tuple[str, ...] = (
        "ls",
        "mkdir",
        "touch",
        "mv",
        "cp",
        "rm",
        "cat",
        "echo",
        "wc",
        "grep",
        "cd",
    )
    files: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    last_file: str | None = None
    last_folder: str | None = None
    first_file: str | None = None

    def __post_init__(self) -> None:
        """Draw the tree."""
        self.folders = self.draw.words("folder", 2)
        self.files = {name: self.draw.word("content") for name in self.draw.words("file", 3)}
        self.tree: dict[str, dict[str, Any]] = {
            name: {"type": "file", "content": content} for name, content in self.files.items()
        }
        self.tree |= {name: {"type": "directory", "contents": {}} for name in self.folders}
        self.names = set(self.tree)

    def initial_config(self) -> dict[str, Any]:
        """Return the tree below one root folder."""
        return {"root": {"workspace": {"type": "directory", "contents": self.tree}}}

    def kinds(self) -> dict[str, bool]:
        """Return the kinds of request possible now, each with whether it needs history."""
        kinds: dict[str, bool] = dict.fromkeys(("list", "make_folder", "new_file"), False)
        if self.folders:
            kinds["enter"] = False
        if self.files and self.folders:
            kinds |= dict.fromkeys(FILE_KINDS, False)
        if self.last_file in self.files and self.folders:
            kinds |= dict.fromkeys([f"{kind}_it" for kind in FILE_KINDS], True)
        if self.last_folder in self.folders:
            kinds["enter_there"] = True
            if self.files:
                kinds |= {"move_there": True, "copy_there": True}
        if self.first_file in self.files:
            kinds |= dict.fromkeys(("delete_first", "read_first"), True)
        return kinds

    def draw_request(self, kind: str) -> UserRequest:
        """Return the request; a pronoun's referent follows from earlier requests."""
        verb, _, reference = kind.partition("_")
        if kind in ("make_folder", "new_file"):
            return self._create(kind)
        if verb == "list":
            first = next(iter(self.files), None)
            # What came later stands behind the folders.
            self.first_file = first if first in self.tree else None
            return UserRequest(kind, {}, ("ls", {}))
        if verb == "enter":
            return self._enter(kind, reference)
        return self._on_file(kind, verb, reference)

    def _create(self, kind: str) -> UserRequest:
        """Make a new folder or an empty file of a name not in use."""
        if kind == "make_folder":
            name = self._fresh("folder")
            self.folders.append(name)
            self.last_folder = name
            return UserRequest(kind, {"folder": name}, ("mkdir", {"dir_name": name}))
        name = self._fresh("file")
        self.files[name] = ""
        self.last_file = name
        return UserRequest(kind, {"file": name}, ("touch", {"file_name": name}))

    def _fresh(self, kind: str) -> str:
        """Return a word of the vocabulary that no entry of the tree ever had."""
        name = str(self.draw.word(kind))
        if name in self.names:
            raise RejectedDraw(kind)
        self.names.add(name)
        return name

    def _enter(self, kind: str, reference: str) -> UserRequest:
        """Go into a folder; nothing else of the tree is in reach from there, so the scene ends."""
        folder = self.last_folder if reference else self.draw.rng.choice(self.folders)
        self.files = {}
        self.folders = []
        self.last_file = None
        self.last_folder = None
        self.first_file = None
        return UserRequest(
            kind,
            {} if reference else {"folder": folder},
            ("cd", {"folder": folder}),
            bool(reference),
        )

    def _on_file(self, kind: str, verb: str, reference: str) -> UserRequest:
        """Do something to a file that is named, meant by 'it', or the first of the listing."""
        seen: dict[str, Any] = {}

        def arguments() -> dict[str, Any]:
            seen["file"] = {"it": self.last_file, "first": self.first_file}.get(
                reference
            ) or self.draw.rng.choice(sorted(self.files))
            seen["folder"] = (
                self.last_folder if reference == "there" else self.draw.rng.choice(self.folders)
            )
            seen["content"], seen["count"] = self.draw.word("content"), self.draw.word("count")
            return {
                "move": {"source": seen["file"], "destination": seen["folder"]},
                "copy": {"source": seen["file"], "destination": seen["folder"]},
                "delete": {"file_name": seen["file"]},
                "read": {"file_name": seen["file"]},
                "write": {"content": seen["content"], "file_name": seen["file"]},
                "count": {"file_name": seen["file"], "mode": str(seen["count"])[0]},
                "search": {"file_name": seen["file"], "pattern": seen["content"]},
            }[verb]

        name = {
            "move": "mv",
            "copy": "cp",
            "delete": "rm",
            "read": "cat",
            "write": "echo",
            "count": "wc",
            "search": "grep",
        }[verb]
        call = self.draw.call(name, arguments)
        self._remember(verb, seen)
        return UserRequest(kind, seen, call, bool(reference))

    def _remember(self, verb: str, seen: dict[str, Any]) -> None:
        """Update the scene: the referents of 'it' and 'there', and the remaining files."""
        self.last_file = seen["file"]
        if verb in ("move", "copy"):
            self.last_folder = seen["folder"]
        if verb in ("move", "delete"):
            del self.files[seen["file"]]
            self.last_file = None
            self.first_file = None
