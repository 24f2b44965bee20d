"""Message roles that a chat template does not render, replaced by the user role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fctncalling.data.types import Message


def adapt_roles(
    messages: Sequence[Message], known_roles: Mapping[str, bool], *, merge_users: bool
) -> list[Message]:
    """Return the messages with unknown roles replaced by "user".

    known_roles: role -> whether the template renders it; roles not in it are known. A replaced
    message is merged with a neighbouring user message; two that were user messages from the start
    only with `merge_users` (templates that drop all but the last of them).
    """
    adapted: list[Message] = []
    replaced_before = False  # the previous message got the user role here
    for message in messages:
        role = message["role"]
        known = known_roles.get(role, True)
        message = {
            **message,
            "role": role if known else "user",
            "content": message.get("content") or "",
        }
        follows_user = adapted and adapted[-1]["role"] == message["role"] == "user"
        if follows_user and (merge_users or replaced_before or not known):
            joined = f"{adapted[-1]['content']}\n{message['content']}"
            adapted[-1] = {**adapted[-1], "content": joined}
        else:
            adapted.append(message)
        replaced_before = not known
    return adapted
