"""BFCL's MessageAPI: messages between the users of a workspace (`message_api.py` there)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.tool_state import RandomStream, snapshot

_TABLE = load_bfcl_table("message_api")
_NO_USER = "No user is currently logged in."


class MessageAPI:
    """BFCL's workspace: contacts, and one inbox of all messages."""

    # a set; BFCL's JSON would make it a list, which then fails at the first message
    generated_ids: Any
    user_count: int
    user_map: dict[str, str]
    inbox: list[dict[str, Any]]
    message_count: int
    current_user: str | None
    _random: RandomStream

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        """Set each public attribute from the scenario or the defaults.

        Long context changes nothing.
        """
        for name, default in _TABLE["default_state"].items():
            setattr(self, name, scenario[name] if name in scenario else snapshot(default, {}))
        if "generated_ids" not in scenario:
            self.generated_ids = set(self.generated_ids)
        self._random = RandomStream(scenario.get("random_seed", _TABLE["default_random_seed"]))

    def _new_id(self) -> dict[str, int]:
        drawn = self._random.randint(*_TABLE["message_id_range"])
        while drawn in self.generated_ids:
            drawn = self._random.randint(*_TABLE["message_id_range"])
        self.generated_ids.add(drawn)
        return {"new_id": drawn}

    def _sent(self) -> Iterator[tuple[Any, Any]]:
        """Yield (receiver, text) of each inbox entry's first pair; BFCL reads no other."""
        for entry in self.inbox:
            yield list(entry.items())[0]  # noqa: RUF015  (StopIteration would end this generator)

    def list_users(self) -> dict[str, Any]:
        """List all users by name."""
        return {"user_list": list(self.user_map)}

    def get_user_id(self, user: Any) -> dict[str, Any]:
        """Return the user id of a name."""
        if user not in self.user_map:
            return {"error": f"User '{user}' not found in the workspace."}
        return {"user_id": self.user_map[user]}

    def message_login(self, user_id: Any) -> dict[str, Any]:
        """Log a user in by id."""
        if user_id not in self.user_map.values():
            return {"login_status": False, "message": f"User ID '{user_id}' not found."}
        self.current_user = user_id
        return {"login_status": True, "message": f"User '{user_id}' logged in successfully."}

    def message_get_login_status(self) -> dict[str, Any]:
        """Return whether a user is logged in."""
        return {"login_status": bool(self.current_user)}

    def send_message(self, receiver_id: Any, message: Any) -> dict[str, Any]:
        """Send a message to a user, under a freshly drawn id."""
        if not self.current_user:
            return {"error": _NO_USER}
        if receiver_id not in self.user_map.values():
            return {"error": f"Receiver ID '{receiver_id}' not found."}
        message_id = self._new_id()
        self.inbox.append({receiver_id: message})
        self.message_count += 1
        return {
            "sent_status": True,
            "message_id": message_id,
            "message": f"Message sent to '{receiver_id}' successfully.",
        }

    def delete_message(self, receiver_id: Any) -> dict[str, Any]:
        """Delete the latest message to a user, or rather the first entry equal to it.

        Counts stay.
        """
        if not self.current_user:
            return {"error": _NO_USER}
        for entry in reversed(self.inbox):
            if list(entry)[0] == receiver_id:  # noqa: RUF015  (an empty entry raises IndexError, as elsewhere)
                self.inbox.remove(entry)
                return {
                    "deleted_status": True,
                    "receiver_id": receiver_id,
                    "message": f"Receiver {receiver_id}'s latest message deleted successfully.",
                }
        return {"error": f"Receiver ID {receiver_id} not found."}

    def view_messages_sent(self) -> dict[str, Any]:
        """Return all messages by receiver, for any logged-in user."""
        if not self.current_user:
            return {"error": _NO_USER}
        messages: dict[Any, list[Any]] = {}
        for receiver, text in self._sent():
            messages.setdefault(receiver, []).append(text)
        return {"messages": messages}

    def add_contact(self, user_name: Any) -> dict[str, Any]:
        """Add a contact under the next id.

        The count is raised even if that id turns out to be taken.
        """
        if user_name in self.user_map:
            return {"error": f"User name '{user_name}' already exists."}
        self.user_count += 1
        user_id = f"USR{str(self.user_count).zfill(3)}"
        if user_id in self.user_map.values():
            return {"error": f"User ID '{user_id}' already exists."}
        self.user_map[user_name] = user_id
        return {
            "added_status": True,
            "user_id": user_id,
            "message": f"Contact '{user_name}' added successfully.",
        }

    def search_messages(self, keyword: Any) -> dict[str, Any]:
        """Return the messages with a keyword, in any letter case."""
        if not self.current_user:
            return {"error": _NO_USER}
        lowered = keyword.lower()
        messages = [
            {"receiver_id": receiver, "message": text}
            for receiver, text in self._sent()
            if lowered in text.lower()
        ]
        return {"results": messages}

    def get_message_stats(self) -> dict[str, Any]:
        """Return how many messages were sent, to how many receivers."""
        if not self.current_user:
            return {"error": _NO_USER}
        receivers = {receiver for receiver, _ in self._sent()}
        return {"stats": {"received_count": len(self.inbox), "total_contacts": len(receivers)}}
