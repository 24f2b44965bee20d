"""Facts of a base model, and the settings of training that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fctncalling.lab.adapt.adapt_settings import AdaptError

SMALL = 20_000_000  # parameters, below which a model is a toy with settings of the embedded one
_PRESETS = ((400e6, "0.1B"), (1.5e9, "0.5B"), (6e9, "4B-lora"), (float("inf"), "8B-lora"))
LONGEST_EPISODE = 4096
MAX_NEW_TOKENS = 128  # of an answer, in training and in scores
PASS_TOKENS = 2560  # of one pass: of many short ones, and of the memory that it takes
LIBRARIES_GB, PLAY_GB = 0.4, 1.2


@dataclass(frozen=True)
class BaseModel:
    """Facts of a base model, read without loading its weights."""

    name: str
    parameters: int
    context: int
    takes_tools: bool  # whether its chat template shows tools in a form of its own
    model_type: str
    handler: str = "auto"  # how its chat template writes calls
    hidden_numbers: int = 0  # of a token, in all layers together

    @property
    def prompt_style(self) -> str:
        """Form of the functions in the prompt."""
        return "bfcl" if self.takes_tools else "compact"

    @property
    def max_episode_tokens(self) -> int:
        """The longest episode that it reads."""
        return min(LONGEST_EPISODE, self.context)

    @property
    def training_gb(self) -> float:
        """What the supervised stage takes, in fp32: 16 bytes a weight, 18 numbers a hidden one."""
        passes = 18 * 4e-9 * self.hidden_numbers * min(PASS_TOKENS, self.max_episode_tokens)
        return LIBRARIES_GB + 16e-9 * self.parameters + passes

    @property
    def play_gb(self) -> float:
        """What it takes to answer: a copy of its weights more while they are read."""
        return PLAY_GB + 6e-9 * self.parameters

    def training_flags(self, torch_threads: int, seed: int) -> list[str]:
        """Return the flags that all training of it shares."""
        flags = {
            "model_name_or_path": self.name,
            "max_episode_tokens": self.max_episode_tokens,
            "max_microbatch_tokens": min(PASS_TOKENS, self.max_episode_tokens),
            "prompt_style": self.prompt_style,
            "torch_threads": torch_threads,
            "seed": seed,
            "max_new_tokens": MAX_NEW_TOKENS,
            "log_tokens_interval": 0,
            "tensorboard": "false",
        }
        if bfloat16_is_faster():
            flags["compute_dtype"] = "bfloat16"
        if self.parameters >= SMALL:
            flags["preset"] = next(name for most, name in _PRESETS if self.parameters < most)
        return [word for name, value in flags.items() for word in (f"--{name}", str(value))]

    def record(self) -> dict[str, Any]:
        """Return the facts as JSON holds them."""
        return {"name": self.name, "parameters": self.parameters, "type": self.model_type}


def bfloat16_is_faster() -> bool:
    """Whether there is no GPU and the CPU multiplies in bf16; others imitate that, slowly."""
    import torch

    asks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    known = [ask() for name in asks if (ask := getattr(torch.cpu, name, None)) is not None]
    return any(known) and not torch.cuda.is_available()


def inspect_base_model(name: str) -> BaseModel:
    """Return the facts of a model folder, GGUF file or hub name; AdaptError where it is none."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from fctncalling.algorithms.policy.chat_template import ChatTemplate
    from fctncalling.call_form import resolve_handler_name
    from fctncalling.model_folder import (
        ImportFailure,
        is_gguf,
        missing_model_message,
        resolve_model_folder,
    )

    if not is_gguf(name) and (missing := missing_model_message(name)):
        raise AdaptError(f"--model {name}: cannot be used: {missing}")
    try:
        folder = str(resolve_model_folder(name))
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
                config, trust_remote_code=False
            )
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        template = ChatTemplate(tokenizer)
    except (OSError, ValueError, KeyError, RuntimeError, ImportFailure) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise AdaptError(f"--model {name}: cannot be used: {reason}") from None
    return BaseModel(
        name,
        sum(each.numel() for each in model.parameters()),
        int(getattr(config, "max_position_embeddings", LONGEST_EPISODE) or LONGEST_EPISODE),
        template.takes_tools,
        str(config.model_type),
        resolve_handler_name("auto", template),
        int(getattr(config, "num_hidden_layers", 0) * getattr(config, "hidden_size", 0)),
    )
