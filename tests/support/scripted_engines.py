"""A TextEnvironment whose policy says what a test writes down, through the real template, tools and
histories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiny_models import tiny_model, tiny_tokenizer

from fctncalling.algorithms.generation.engine_api import Action, Request
from fctncalling.lab.text_environment.text_environment import TextEnvironment

END = "\0end"  # written where the policy writes its end token


class TextScriptEngine:
    """Stands in for a generation engine: slot i says `scripts[i]`, one text a request, and "" for
    nothing at all.
    """

    stop_ids: frozenset[int]

    def __init__(self, env: TextEnvironment, scripts: Sequence[Sequence[str]]) -> None:
        self.template, self.scripts = env.template, [list(script) for script in scripts]
        self.model = env._engine.model
        self.requests: list[Request] = []

    def allocate_slots(self, num_slots: int) -> None:
        pass

    def release(self) -> None:
        pass

    def begin_sequence(self, slot: int, seed: int | None = None) -> None:
        pass

    def generate(self, requests: Sequence[Request]) -> list[Action]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Action:
        self.requests.append(request)
        script = self.scripts[request.slot]
        text = script.pop(0) if script else ""
        action = Action()
        ids = self.template.continuation(text.removesuffix(END))
        ids += [self.template.end_of_turn_id] if text.endswith(END) else []
        for token in ids[: request.max_new_tokens]:
            action.append(token, -1.0)
            if request.on_token is not None:
                request.on_token(token, -1.0)
        return action


def scripted(
    scripts: Sequence[Sequence[str]], tools: Mapping[str, Any] | None = None, **keywords: Any
) -> TextEnvironment:
    """Return an environment over a byte tokenizer in which query i is answered by `scripts[i]`."""
    tokenizer = keywords.pop("tokenizer", None) or tiny_tokenizer()
    make = keywords.pop("environment", TextEnvironment)
    keywords.setdefault("reward_fn", lambda responses: [0.0] * len(responses))
    env: TextEnvironment = make(
        tiny_model(vocabulary=len(tokenizer)), tokenizer, tools or {}, **keywords
    )
    env._engine = TextScriptEngine(env, scripts)  # type: ignore[assignment]
    return env
