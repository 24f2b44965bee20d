"""Loading of pretrained language models, whose folders are strangers': no code of theirs runs."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import Any


def load_pretrained_model(source: str | Path, **settings: Any) -> Any:
    """Load a causal language model of transformers: a folder's, or the hub's.

    settings: of `from_pretrained`. OSError for weights that are a pickle of more than tensors.
    """
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(
            str(source), trust_remote_code=False, **settings
        )
    except UnpicklingError:  # whose advice is to run it
        raise OSError(
            f"{source}: its weights are a pickle that is torn or holds more than tensors, which "
            "could run code: expected model.safetensors; ask its author for that"
        ) from None
