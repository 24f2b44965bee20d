"""Recognition of context overflow in what endpoints answer."""

from __future__ import annotations

import re

_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|exceed_context|exceeds? the (?:available )?context"
    r"|max(?:imum)?[ _]model[ _]len|maximum (?:input|prompt|sequence) length"
    r"|(?:prompt|input|request|message)s? (?:is|are) too (?:long|large for)"
    r"|(?:prompt|input|token)s?[^.]{0,80} (?:longer than the|exceeds? the maximum number of tokens)"
    r"|max_(?:completion_)?tokens must be at least 1, got (?:0|-\d+)"  # what the prompt leaves
    r"|input[s` ]+tokens?[^.]{0,40}max_new_tokens[^.]{0,20}must be",
    re.IGNORECASE,
)
_NEVER = (401, 403, 404, 405, 429)  # a refusal, or a rate limit counted in tokens


def is_context_overflow(status: int, text: str) -> bool:
    """Whether an error says that the conversation is longer than the model's context.

    Servers share no code for it: OpenAI and vLLM answer 400 "maximum context length", llama.cpp
    400 "exceed_context_size_error", text-generation-inference 422 "must be <=", SGLang 400
    "longer than the model's context length".
    """
    return status not in _NEVER and _OVERFLOW.search(text) is not None
