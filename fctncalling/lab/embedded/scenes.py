"""Scenes of multi-turn tasks: a stateful class, possible requests, and their calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from fctncalling.lab.embedded.vocabulary import RejectedDraw, VocabularyDraw, wording

BFCL_CALL = tuple[str, dict[str, Any]]


FILE_COMMANDS = {
    "move": "mv",
    "copy": "cp",
    "delete": "rm",
    "read": "cat",
    "write": "echo",
    "count": "wc",
    "search": "grep",
}
"""Kind of request about a file -> the function that does it."""


@dataclass(frozen=True)
class UserRequest:
    """Request of a user: kind of phrase, words for its slots, and the call."""

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
    """Small folder tree.

    'it' is the file last named, 'there' the folder last named, 'first' the listing's first.
    """

    class_name: str = "GorillaFileSystem"
    distractor_functions: tuple[str, ...] = (
        *("ls", "mkdir", "touch", "mv", "cp", "rm", "cat", "echo", "wc", "grep", "cd"),
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
            kinds |= dict.fromkeys(FILE_COMMANDS, False)
        if self.last_file in self.files and self.folders:
            kinds |= dict.fromkeys([f"{kind}_it" for kind in FILE_COMMANDS], True)
        if self.last_folder in self.folders:
            kinds["enter_there"] = True
            if self.files:
                kinds |= {"move_there": True, "copy_there": True}
        if self.first_file in self.files:
            kinds |= dict.fromkeys(("delete_first", "read_first"), True)
        return kinds

    def draw_request(self, kind: str) -> UserRequest:
        """Draw a request; a pronoun refers to earlier requests."""
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
        """Draw a word that no entry of the tree ever had."""
        name = str(self.draw.word(kind))
        if name in self.names:
            raise RejectedDraw(kind)
        self.names.add(name)
        return name

    def _enter(self, kind: str, reference: str) -> UserRequest:
        """Enter a folder; this ends the scene, as no other folder is in reach."""
        folder = self.last_folder if reference else self.draw.rng.choice(self.folders)
        self.files = {}
        self.folders = []
        self.last_file = None
        self.last_folder = None
        self.first_file = None
        slots = {} if reference else {"folder": folder}
        return UserRequest(kind, slots, ("cd", {"folder": folder}), bool(reference))

    def _on_file(self, kind: str, verb: str, reference: str) -> UserRequest:
        """Draw a request about a file: named, 'it', or the first of the listing."""
        seen: dict[str, Any] = {}

        def arguments() -> dict[str, Any]:
            meant = {"it": self.last_file, "first": self.first_file}.get(reference)
            seen["file"] = meant or self.draw.rng.choice(sorted(self.files))
            is_there = reference == "there"
            seen["folder"] = self.last_folder if is_there else self.draw.rng.choice(self.folders)
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

        call = self.draw.call(FILE_COMMANDS[verb], arguments)
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


DOORS = ("driver", "passenger", "rear_left", "rear_right")
OPPOSITE = {"on": "off", "off": "on", "engage": "release", "release": "engage"}


@dataclass
class TicketScene(Scene):
    """Ticket desk with a user logged in; 'it' is the ticket last created or displayed."""

    class_name: str = "TicketAPI"
    distractor_functions: tuple[str, ...] = (
        *("create_ticket", "get_ticket", "close_ticket", "resolve_ticket", "edit_ticket"),
        "get_user_tickets",
    )
    ticket: int | None = None  # what 'it' means
    state: str = "Open"

    def __post_init__(self) -> None:
        """Draw the user, the open ticket and the next number."""
        self.user = self.draw.word("user")
        old_ticket, next_ticket = sorted(self.draw.words("ticket", 2))
        self.old_ticket = old_ticket
        self.next_ticket = next_ticket
        self.old = {
            "id": self.old_ticket,
            "title": self.draw.word("topic"),
            "description": "",
            "status": "Open",
            "priority": self.draw.word("priority"),
            "created_by": self.user,
        }

    def initial_config(self) -> dict[str, Any]:
        """Return one open ticket, the next number and the user."""
        return {
            "ticket_queue": [self.old],
            "ticket_counter": self.next_ticket,
            "current_user": self.user,
        }

    def kinds(self) -> dict[str, bool]:
        """Return the possible kinds of request to the desk; no ticket number is given twice."""
        kinds = {"my_tickets": False}
        if self.ticket != self.next_ticket:
            kinds["create_ticket"] = False
        if self.ticket is None:
            kinds["get_ticket"] = False
        else:
            kinds |= {"show_it": True}
            if self.state == "Open":
                kinds |= {"resolve_it": True, "close_it": True, "raise_it": True}
        return kinds

    def draw_request(self, kind: str) -> UserRequest:
        """Draw a request about a new ticket, the open one, or 'it'."""
        if kind == "my_tickets":
            return UserRequest(kind, {}, ("get_user_tickets", {}))
        if kind == "get_ticket":
            self.ticket = self.old_ticket
            number = {"ticket_id": self.ticket}
            return UserRequest(kind, {"ticket": self.ticket}, ("get_ticket", number))
        if kind == "create_ticket":
            words = {"title": "topic", "priority": "priority"}
            call = self.draw.call(
                kind, lambda: {key: self.draw.word(word) for key, word in words.items()}
            )
            self.ticket = self.next_ticket
            self.state = "Open"
            return UserRequest(kind, {word: call[1][key] for key, word in words.items()}, call)
        return self._about_it(kind)

    def _about_it(self, kind: str) -> UserRequest:
        """Return a request about 'it', the ticket that an earlier turn named."""
        slots = {word: self.draw.word(word) for word in ("fix", "priority")}
        number = {"ticket_id": self.ticket}
        if kind == "show_it":
            return UserRequest(kind, {}, ("get_ticket", number), True)
        if kind == "close_it":
            self.state = "Closed"
            return UserRequest(kind, {}, ("close_ticket", number), True)
        if kind == "resolve_it":
            self.state = "Resolved"
            call = self.draw.call(
                "resolve_ticket", lambda: number | {"resolution": self.draw.word("fix")}
            )
            return UserRequest(kind, slots | {"fix": call[1]["resolution"]}, call, True)
        call = self.draw.call(
            "edit_ticket", lambda: number | {"updates": {"priority": self.draw.word("priority")}}
        )
        return UserRequest(kind, slots | {"priority": call[1]["updates"]["priority"]}, call, True)


@dataclass
class VehicleScene(Scene):
    """Parked car; 'that' is the last switch or climate, 'the same amount' the last filling."""

    class_name: str = "VehicleControlAPI"
    distractor_functions: tuple[str, ...] = (
        *("lockDoors", "setHeadlights", "adjustClimateControl", "fillFuelTank"),
        *("set_navigation", "displayCarStatus", "activateParkingBrake"),
    )
    last: UserRequest | None = None

    def initial_config(self) -> dict[str, Any]:
        """Return a car with room in its tank."""
        return {
            "fuelLevel": 10.0,
            "batteryVoltage": 12.6,
            "doorStatus": dict.fromkeys(DOORS, "unlocked"),
        }

    def kinds(self) -> dict[str, bool]:
        """Return the kinds of request possible now, each with whether it needs history."""
        kinds: dict[str, bool] = dict.fromkeys(
            ("lock", "unlock", "lamp", "climate", "fuel", "drive", "status", "brake"), False
        )
        last = self.last.kind if self.last else ""
        if last in ("lock", "unlock", "lamp", "brake"):
            kinds["undo"] = True
        if last.startswith(("climate", "fuel")):
            kinds[last.partition("_")[0] + "_again"] = True
        return kinds

    def draw_request(self, kind: str) -> UserRequest:
        """Draw a request, which becomes the referent of 'that'."""
        if kind == "undo":
            self.last = self._undo()
        else:
            self.last = self._again(kind) if kind.endswith("_again") else self._plain(kind)
        return self.last

    def _plain(self, kind: str) -> UserRequest:
        """Return a request that names all values."""
        if kind in ("lock", "unlock"):
            call = self.draw.call(
                "lockDoors", lambda: {"unlock": kind == "unlock", "door": [self.draw.word("door")]}
            )
            return UserRequest(kind, {"door": call[1]["door"][0].replace("_", " ")}, call)
        if kind == "climate":
            words = {"temperature": "degrees", "mode": "climate"}
            call = self.draw.call(
                "adjustClimateControl",
                lambda: {key: self.draw.word(word) for key, word in words.items()},
            )
            return UserRequest(kind, {word: call[1][key] for key, word in words.items()}, call)
        vocabulary, name, parameter = {
            "lamp": ("lamp", "setHeadlights", "mode"),
            "fuel": ("gallons", "fillFuelTank", "fuelAmount"),
            "drive": ("city", "set_navigation", "destination"),
            "status": ("status", "displayCarStatus", "option"),
            "brake": ("brake", "activateParkingBrake", "mode"),
        }[kind]
        word = self.draw.word(vocabulary)
        return UserRequest(kind, {vocabulary: word}, (name, {parameter: word}))

    def _undo(self) -> UserRequest:
        """Return the request that reverses the last switch."""
        assert self.last is not None
        name, arguments = self.last.call
        if name == "lockDoors":
            turned = {**arguments, "unlock": not arguments["unlock"]}
            return UserRequest("undo", {}, self.draw.call(name, lambda: turned), True)
        return UserRequest("undo", {}, (name, {"mode": OPPOSITE[arguments["mode"]]}), True)

    def _again(self, kind: str) -> UserRequest:
        """Return a request for the last climate with other degrees, or for the same filling."""
        assert self.last is not None
        name, arguments = self.last.call
        if kind == "fuel_again":
            return UserRequest(kind, {}, (name, dict(arguments)), True)
        degrees = wording()["words"]["degrees"]
        others = [degree for degree in degrees if degree != arguments["temperature"]]
        call = self.draw.call(
            name, lambda: {**arguments, "temperature": self.draw.rng.choice(others)}
        )
        return UserRequest(kind, {"degrees": call[1]["temperature"]}, call, True)
