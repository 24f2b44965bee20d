"""LoRA adapters on one base model (Hu et al. 2021, arXiv:2106.09685): to act, to judge, and none for the reference.

The base's weights are frozen and never change; adapters are trained in fp32 whatever the base's precision.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

ACTOR = "default"  # peft writes this one into the folder itself, so that plain peft loads it
CRITIC = "critic"  # in a folder of its own below


class Adapters:
    """Named LoRA adapters inside a language model, in whose layers they are put: the model stays what it was to others.

    peft's own switching freezes the adapters it switches off; here all of them stay trainable.
    """

    def __init__(self, model: nn.Module, *, r: int, alpha: float, targets: str = "all-linear") -> None:
        """targets: "all-linear" (every linear layer but the output), or names of layers parted by commas."""
        from peft import LoraConfig, get_peft_model

        names: Any = targets if targets == "all-linear" else [name.strip() for name in targets.split(",")]
        self.config = LoraConfig(task_type="CAUSAL_LM", r=r, lora_alpha=alpha, target_modules=names)  # type: ignore[arg-type]
        language_model: Any = model
        self.peft: Any = get_peft_model(language_model, self.config, adapter_name=ACTOR)
        self.switch(ACTOR)

    def add(self, name: str, folder: str | Path | None = None) -> None:
        """Put in a further adapter, a fresh one or that of a folder; the one in use stays in use."""
        if folder is None:
            self.peft.add_adapter(name, self.config)
        else:
            self.peft.load_adapter(str(folder), adapter_name=name, is_trainable=True)
        self.switch(ACTOR)

    def load(self, folder: str | Path) -> None:
        """Take over the saved weights of every adapter in use here."""
        from peft import set_peft_model_state_dict
        from peft.utils import load_peft_weights

        for name in self.names:
            path = Path(folder) if name == ACTOR else Path(folder) / name
            set_peft_model_state_dict(self.peft, load_peft_weights(str(path), device="cpu"), adapter_name=name)

    def save(self, folder: str | Path) -> None:
        """Write adapter_config.json and adapter_model.safetensors, the critic's into a folder below."""
        self.peft.save_pretrained(str(folder), selected_adapters=self.names, save_embedding_layers=False)

    @property
    def names(self) -> list[str]:
        """The adapters there are."""
        return list(self.peft.peft_config)

    def parameters(self, name: str) -> list[nn.Parameter]:
        """Return the weights of one adapter."""
        return [weight for path, weight in self.peft.named_parameters() if f".{name}." in path and "lora_" in path]

    @contextlib.contextmanager
    def use(self, name: str | None) -> Iterator[None]:
        """Let another adapter, or none (the base alone), work until the block is left."""
        self.switch(name)
        try:
            yield
        finally:
            self.switch(ACTOR)

    def switch(self, name: str | None) -> None:
        """Let one adapter work from here on, or none; nothing is loaded and no weight changes."""
        from peft.tuners.tuners_utils import BaseTunerLayer

        for layer in self.peft.modules():
            if isinstance(layer, BaseTunerLayer):
                layer.enable_adapters(name is not None)
                if name is not None:
                    layer.set_adapter([name])
        for path, weight in self.peft.named_parameters():
            weight.requires_grad_("lora_" in path)


def merged(folder: str | Path, base: str | Path) -> Any:
    """Return an ordinary language model: the base with the saved actor's adapter added to its weights."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32)
    adapted: Any = PeftModel.from_pretrained(model, str(folder))
    return adapted.merge_and_unload()
