"""Built-in chat template for tokenizers without one."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger(__name__)

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message.role + '|>\n' + message.content }}"
    "{{ (eos_token if message.role == 'assistant' else '') + '\n' }}{% endfor %}"
    "{{ '<|assistant|>\n' if add_generation_prompt else '' }}"
)


def fallback_template(tokenizer: Any) -> str | None:
    """Return PLAIN_TEMPLATE, with a warning, for a tokenizer without a chat template; else None."""
    if getattr(tokenizer, "chat_template", None):
        return None
    logger.warning(
        "the tokenizer has no chat template: a plain built-in one (<|user|> ... <|assistant|> "
        "...) is used. "
        "Give the model's own with --chat_template FILE."
    )
    return PLAIN_TEMPLATE


def bos_ids(tokenizer: Any) -> list[int]:
    """Return [BOS] if the tokenizer puts one before a text, as its model was trained; else []."""
    bos = tokenizer.bos_token_id
    return [bos] if bos is not None and tokenizer("").input_ids[:1] == [bos] else []
