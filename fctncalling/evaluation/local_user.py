"""A local model as the user: `hf:FOLDER`, beside the users of `fctncalling.envs.users`."""

from __future__ import annotations

from typing import Any

from fctncalling.data.types import Message
from fctncalling.envs.users import LanguageModelUser, make_user
from fctncalling.envs.users.user_names import User

MAX_NEW_TOKENS = 60  # a sentence


def user_named(name: str, *, seed: int = 0) -> User:
    """Return the user of a name.

    ValueError for one that there is not, or a folder without a model.
    """
    kind, _, folder = name.partition(":")
    if kind == "hf" and folder:
        return LanguageModelUser(LocalCompletion(folder), name=name)
    try:
        return make_user(name, seed=seed)
    except ValueError as error:
        is_unknown = "expected one of scripted" in str(error)
        raise ValueError(f"{error}, hf:FOLDER" if is_unknown else str(error)) from None


class LocalCompletion:
    """Asks a model of a folder or of the Hugging Face hub for its answer, greedily.

    Raises ValueError for a model that cannot be loaded.
    """

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from fctncalling.algorithms.policy.chat_template import ChatTemplate

        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            model: Any = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
        except (OSError, ValueError) as error:
            first_line = str(error).partition("\n")[0]
            raise ValueError(
                f"user hf:{folder}: the model cannot be loaded: {first_line}"
            ) from None
        self._model = model.eval()
        self._template = ChatTemplate(tokenizer)

    def __call__(self, messages: list[Message]) -> str:
        """Return the text that the model answers."""
        import torch

        ids = self._template.render_prompt(messages, tools=(), instructions="")
        with torch.no_grad():
            output = self._model.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=MAX_NEW_TOKENS,
                do_sample=False,
                eos_token_id=sorted(self._template.stop_ids),
                pad_token_id=min(self._template.stop_ids),
            )
        new = [
            each for each in output[0, len(ids) :].tolist() if each not in self._template.stop_ids
        ]
        return self._template.decode(new)
