"""BFCL's ticket desk (`TicketAPI`): tickets in a queue, and the user who is logged in."""

from __future__ import annotations

from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.tool_state import snapshot

Result = dict[str, Any]

_TABLE = load_bfcl_table("ticket_api")
_LOWEST_PRIORITY, _HIGHEST_PRIORITY = _TABLE["priority_range"]


class TicketAPI:
    """BFCL's ticket desk; only creating and listing one's tickets require a login.

    Arguments are used as they come, as in BFCL: a wrong type surfaces as the interpreter's own
    error text.
    """

    ticket_queue: list[dict[str, Any]]
    ticket_counter: int
    current_user: str | None

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        for name, default in _TABLE["default_state"].items():
            setattr(self, name, scenario[name] if name in scenario else snapshot(default, {}))

    def _find(self, ticket_id: int) -> dict[str, Any] | None:
        """Return the first queued ticket with this id, not a copy, or None."""
        return next((ticket for ticket in self.ticket_queue if ticket["id"] == ticket_id), None)

    def create_ticket(self, title: str, description: str = "", priority: int = 1) -> Result:
        """Create an open ticket of the current user and return it."""
        if not self.current_user:
            return {"error": "User not authenticated. Please log in to create a ticket."}
        if priority < _LOWEST_PRIORITY or priority > _HIGHEST_PRIORITY:
            return {
                "error": f"Invalid priority. Priority must be between {_LOWEST_PRIORITY} and "
                f"{_HIGHEST_PRIORITY}."
            }
        ticket = {
            "id": self.ticket_counter,
            "title": title,
            "description": description,
            "status": "Open",
            "priority": priority,
            "created_by": self.current_user,
        }
        self.ticket_queue.append(ticket)
        self.ticket_counter += 1
        return ticket

    def get_ticket(self, ticket_id: int) -> Result:
        """Return the ticket with an id, for any logged-in user."""
        return self._find(ticket_id) or _not_found(ticket_id)

    def close_ticket(self, ticket_id: int) -> Result:
        """Close an open ticket."""
        return self._finish(ticket_id, "Closed")

    def resolve_ticket(self, ticket_id: int, resolution: str) -> Result:
        """Resolve a ticket, with a note on how."""
        return self._finish(ticket_id, "Resolved", resolution=resolution)

    def _finish(self, ticket_id: int, status: str, **notes: str) -> Result:
        """Give a ticket its final status and further fields.

        A ticket that has the status already is refused.
        """
        ticket = self._find(ticket_id)
        if not ticket:
            return _not_found(ticket_id)
        if ticket["status"] == status:
            return {"error": f"Ticket with ID {ticket_id} is already {status.lower()}."}
        ticket.update(status=status, **notes)
        return {"status": f"Ticket {ticket_id} has been {status.lower()} successfully."}

    def edit_ticket(self, ticket_id: int, updates: dict[str, Any]) -> Result:
        """Overwrite fields of a ticket with every value that is not None.

        New priorities are not checked.
        """
        ticket = self._find(ticket_id)
        if not ticket:
            return _not_found(ticket_id)
        # BFCL joins a set here, so its order follows the hash seed; ours is the order of the
        # updates.
        invalid = [name for name in updates.keys() if name not in _TABLE["editable_fields"]]  # noqa: SIM118
        if invalid:
            return {"error": "Invalid fields for update: " + ", ".join(invalid)}
        ticket.update({name: value for name, value in updates.items() if value is not None})
        return {"status": f"Ticket {ticket_id} has been updated successfully."}

    def ticket_login(self, username: str, password: str) -> Result:
        """Log in with any name and password that are not empty."""
        if not (username and password):
            return {"success": False}
        self.current_user = username
        return {"success": True}

    def ticket_get_login_status(self) -> Result:
        """Return whether a user is logged in."""
        return {"login_status": bool(self.current_user)}

    def logout(self) -> Result:
        """Log the current user out."""
        if not self.current_user:
            return {"success": False}
        self.current_user = None
        return {"success": True}

    def get_user_tickets(self, status: str | None = None) -> list[Result]:
        """Return the current user's tickets, of one status if it is given.

        Its case does not matter.
        """
        if not self.current_user:
            return [{"error": "User not authenticated. Please log in to view tickets."}]
        tickets = [
            ticket for ticket in self.ticket_queue if ticket["created_by"] == self.current_user
        ]
        if status:
            tickets = [ticket for ticket in tickets if ticket["status"].lower() == status.lower()]
        return tickets


def _not_found(ticket_id: int) -> Result:
    return {"error": f"Ticket with ID {ticket_id} not found."}
