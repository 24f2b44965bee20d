"""Arguments of chat templates, as --chat_template_kwargs gives them."""

from __future__ import annotations

import json
from typing import Any

from fctncalling.algorithms.config.config_fields import SettingError

FLAG = "--chat_template_kwargs"
# What apply_chat_template is called with, or takes for itself.
TAKEN = frozenset(
    "self conversation messages tools documents chat_template add_generation_prompt tokenize "
    "padding continue_final_message truncation max_length return_tensors return_dict "
    "tokenizer_kwargs return_assistant_tokens_mask".split()
)


def parse_template_kwargs(text: str | None) -> dict[str, Any]:
    """Parse the JSON object of --chat_template_kwargs; SettingError where it is none."""
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        example = '{"enable_thinking": false}'
        raise SettingError(f"{FLAG}: got {text!r:.80}, expected a JSON object such as {example}")
    if taken := sorted(given.keys() & TAKEN):
        raise SettingError(f"{FLAG}: {taken[0]} is given by every rendering itself; leave it out")
    return given
