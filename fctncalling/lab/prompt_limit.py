"""Limit of a prompt's length, by a model's tokenizer or an estimate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.data.types import Task
from fctncalling.envs.handlers import get_handler
from fctncalling.envs.prompting.prompts import TaskPrompt
from fctncalling.model_folder import missing_model_message

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.chat_template import ChatTemplate

MOST_PROMPT_TOKENS = 16_384
CHARACTERS_A_TOKEN = 4


class PromptLimit(NamedTuple):
    """Most tokens of a task's first prompt: estimated, or as a chat template renders it."""

    tokens: int = MOST_PROMPT_TOKENS
    template: ChatTemplate | None = None

    def excess(self, task: Task) -> str:
        """Return a message if a task's prompt is too long, else ""."""
        prompt = TaskPrompt(task, get_handler("auto"))
        messages, tools = prompt.messages(0), prompt.tools(0)
        if self.template is None:
            texts = [json.dumps(tools), *(str(each.get("content") or "") for each in messages)]
            about, found = "about ", sum(map(len, texts)) // CHARACTERS_A_TOKEN
        else:
            try:
                about, found = "", len(self.template.render_prompt(messages, tools, prompt.system))
            except ValueError as error:  # of the template
                return f"the chat template refuses the prompt: {error}"[:300]
        told = f"the prompt has {about}{found:,} tokens, more than {self.tokens:,}"
        return told if found > self.tokens else ""


def prompt_limit(model: str | None, tokens: int) -> PromptLimit:
    """Return a model's context as it counts tokens, or the limit given where there is no model."""
    if model is None:
        return PromptLimit(tokens)
    if missing := missing_model_message(model):
        raise InputError(f"--model {model}: {missing}")
    from transformers import AutoConfig, AutoTokenizer

    from fctncalling.algorithms.policy.template_file import load_template

    config = AutoConfig.from_pretrained(model, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
    context = getattr(config, "max_position_embeddings", None) or tokens
    return PromptLimit(context, load_template(tokenizer, None, model, None))
