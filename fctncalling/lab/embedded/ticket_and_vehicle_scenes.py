"""Multi-turn scenes without the file system: ticket desk and vehicle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fctncalling.lab.embedded.scenes import Scene, UserRequest
from fctncalling.lab.embedded.vocabulary import wording

OPPOSITE = {"on": "off", "off": "on", "engage": "release", "release": "engage"}


@dataclass
class TicketScene(Scene):
    """A ticket desk with somebody logged in; 'it' is the ticket last created or shown."""

    class_name: str = "TicketAPI"
    distractor_functions: tuple[str, ...] = (
        "create_ticket",
        "get_ticket",
        "close_ticket",
        "resolve_ticket",
        "edit_ticket",
        "get_user_tickets",
    )
    ticket: int | None = None  # what 'it' means
    state: str = "Open"

    def __post_init__(self) -> None:
        """Draw who is logged in, the open ticket that stands there and the number of the next."""
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
        """Return the request about a new ticket, the one that stands there, or 'it'."""
        if kind == "my_tickets":
            return UserRequest(kind, {}, ("get_user_tickets", {}))
        if kind == "get_ticket":
            self.ticket = self.old_ticket
            return UserRequest(
                kind, {"ticket": self.ticket}, ("get_ticket", {"ticket_id": self.ticket})
            )
        if kind == "create_ticket":
            call = self.draw.call(
                kind,
                lambda: {"title": self.draw.word("topic"), "priority": self.draw.word("priority")},
            )
            self.ticket = self.next_ticket
            self.state = "Open"
            return UserRequest(
                kind, {"topic": call[1]["title"], "priority": call[1]["priority"]}, call
            )
        return self._about_it(kind)

    def _about_it(self, kind: str) -> UserRequest:
        """Return a request about the ticket meant by 'it', whose number an earlier turn named."""
        slots: dict[str, Any] = {
            "fix": self.draw.word("fix"),
            "priority": self.draw.word("priority"),
        }
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
    """A parked car: 'that' is the last switch or climate, 'the same amount' the last filling."""

    class_name: str = "VehicleControlAPI"
    distractor_functions: tuple[str, ...] = (
        "lockDoors",
        "setHeadlights",
        "adjustClimateControl",
        "fillFuelTank",
        "set_navigation",
        "displayCarStatus",
        "activateParkingBrake",
    )
    last: UserRequest | None = None

    def initial_config(self) -> dict[str, Any]:
        """Return a car with room in its tank."""
        return {
            "fuelLevel": 10.0,
            "batteryVoltage": 12.6,
            "doorStatus": dict.fromkeys(
                ["driver", "passenger", "rear_left", "rear_right"], "unlocked"
            ),
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
        """Return the request; it becomes the referent of 'that'."""
        self.last = (
            self._undo()
            if kind == "undo"
            else self._again(kind)
            if kind.endswith("_again")
            else self._plain(kind)
        )
        return self.last

    def _plain(self, kind: str) -> UserRequest:
        """Return a request that names everything it needs."""
        if kind in ("lock", "unlock"):
            call = self.draw.call(
                "lockDoors", lambda: {"unlock": kind == "unlock", "door": [self.draw.word("door")]}
            )
            return UserRequest(kind, {"door": call[1]["door"][0].replace("_", " ")}, call)
        if kind == "climate":
            call = self.draw.call(
                "adjustClimateControl",
                lambda: {
                    "temperature": self.draw.word("degrees"),
                    "mode": self.draw.word("climate"),
                },
            )
            return UserRequest(
                kind, {"degrees": call[1]["temperature"], "climate": call[1]["mode"]}, call
            )
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
        """Return the request that takes the last switch back."""
        assert self.last is not None
        name, arguments = self.last.call
        if name == "lockDoors":
            return UserRequest(
                "undo",
                {},
                self.draw.call(name, lambda: {**arguments, "unlock": not arguments["unlock"]}),
                True,
            )
        return UserRequest("undo", {}, (name, {"mode": OPPOSITE[arguments["mode"]]}), True)

    def _again(self, kind: str) -> UserRequest:
        """Return the last climate with other degrees, or the last filling once more."""
        assert self.last is not None
        name, arguments = self.last.call
        if kind == "fuel_again":
            return UserRequest(kind, {}, (name, dict(arguments)), True)
        others = [
            degrees
            for degrees in wording()["words"]["degrees"]
            if degrees != arguments["temperature"]
        ]
        call = self.draw.call(
            name, lambda: {**arguments, "temperature": self.draw.rng.choice(others)}
        )
        return UserRequest(kind, {"degrees": call[1]["temperature"]}, call, True)
