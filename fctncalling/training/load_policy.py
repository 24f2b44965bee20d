"""Loading of policy and chat template from a folder, hub name or checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.data.bfcl import embedded_path
from fctncalling.model_folder import ImportFailure, resolve_model_folder
from fctncalling.training.announce import announce
from fctncalling.training.run_config import ENV_MODELS, RunConfig

if TYPE_CHECKING:
    import torch

    from fctncalling.algorithms.policy.actor_critic import ActorCritic
    from fctncalling.algorithms.policy.chat_template import ChatTemplate


class ModelError(Exception):
    """Error of a model that cannot be loaded."""


def load_policy(
    config: TrainConfig,
    run_config: RunConfig,
    checkpoint: Path | None,
    device: torch.device,
    roles: Sequence[str] = (),
) -> tuple[ActorCritic, ChatTemplate]:
    """Load the policy and chat template of the model, or of a checkpoint.

    Sets torch's threads, TF32 and every seed. roles: those that have weights of their own.
    """
    import torch
    from transformers import AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    from fctncalling.algorithms.policy.actor_critic import ActorCritic
    from fctncalling.algorithms.policy.answer_ends import add_ends, listed_ends
    from fctncalling.algorithms.policy.precision import weights_dtype
    from fctncalling.algorithms.run.checkpoint import seed_streams

    disable_progress_bar()  # type: ignore[no-untyped-call]  # its bars of a few milliseconds would tear our own
    torch.set_num_threads(config.torch_threads)
    torch.backends.cuda.matmul.allow_tf32 = config.tf32
    seed_streams(config.seed)
    is_whole = checkpoint is not None and not config.lora_r  # else the base model and adapters
    source = str(checkpoint) if is_whole else base_model(config)
    dtype = weights_dtype(config, device)
    with _reading(source, checkpoint):
        tokenizer = AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
        policy = ActorCritic.load(
            source,
            **config.critic_shape,
            critic_detach=config.detaches_critic,
            critic_roles=roles if config.team_critic == "per_role" else (),
            dtype=dtype,
        )
        configure_policy(policy, config, checkpoint, device, roles)
        _check_tokenizer(tokenizer, policy.model)
    _check_positions(policy.model, config)
    layers = getattr(policy.model.config, "num_hidden_layers", config.critic_layers)
    if config.critic_layers > layers:
        raise SettingError(
            f"--critic_layers: got {config.critic_layers}, the model has {layers}; give at most "
            "that many"
        )
    if checkpoint is not None and (own := checkpoint / "chat_template.jinja").is_file():
        tokenizer.chat_template = own.read_text(encoding="utf-8")  # an adapter's base has none
    template = load_template(
        tokenizer, run_config.chat_template, policy.model, run_config.chat_template_kwargs
    )
    if ordinary := set(listed_ends(policy.model)) - template.stop_ids:
        announce(
            f"Note: generation_config.json ends answers at {template.spell(sorted(ordinary))!r}, "
            "an ordinary token of texts: rollouts do not stop there."
        )
    add_ends(policy.model, template.ends.taught)
    return policy.to(device), template


def _check_positions(model: Any, config: TrainConfig) -> None:
    """Raise SettingError if an episode may exceed the model's context length."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions >= config.max_episode_tokens:
        return
    preset = PRESETS.get(config.preset or "", {})
    if preset.get("max_episode_tokens") != config.max_episode_tokens:
        raise SettingError(
            f"--max_episode_tokens: got {config.max_episode_tokens}, the model reads {positions} "
            "at most"
        )
    whose = "the embedded model" if config.model_name_or_path is None else "the model"
    cure = "--model_name_or_path FOLDER of a model of that size, or " * (whose != "the model")
    raise SettingError(
        f"--preset {config.preset}: sets --max_episode_tokens {config.max_episode_tokens}, {whose} "
        f"reads {positions} at most; give {cure}--max_episode_tokens"
    )


def _check_tokenizer(tokenizer: Any, model: Any) -> None:
    """Raise ValueError for a tokenizer that does not fit the model.

    Empty, or with tokens outside its embedding.
    """
    ids = tokenizer.encode("a b", add_special_tokens=False)
    if not ids:
        raise ValueError("its tokenizer makes no tokens of a text; is tokenizer.json missing?")
    size = model.get_input_embeddings().num_embeddings
    if max(ids) >= size:
        raise ValueError(f"its tokenizer is another model's: token {max(ids)} of {size}")


def load_template(
    tokenizer: Any, path: str | None, model: Any = None, kwargs: str | None = None
) -> ChatTemplate:
    """Load the chat template; announce if a plain one replaces it."""
    from fctncalling.algorithms.policy.template_file import load_template

    if path is None and not getattr(tokenizer, "chat_template", None):
        announce(
            "Note: the tokenizer has no chat template; a plain one stands in. --chat_template FILE "
            "gives another."
        )
    return load_template(tokenizer, path, model, kwargs)


@contextlib.contextmanager
def _reading(source: str, checkpoint: Path | None) -> Iterator[None]:
    """Context manager: convert file errors to ModelError or CheckpointError."""
    from safetensors import SafetensorError

    from fctncalling.algorithms.policy.value_head import VALUE_HEAD_FILE
    from fctncalling.algorithms.run.checkpoint import CheckpointError

    try:
        if checkpoint is not None and not (checkpoint / VALUE_HEAD_FILE).is_file():
            raise OSError(f"{VALUE_HEAD_FILE} is missing")
        yield
    except SettingError:
        raise
    except (
        *(OSError, ValueError, RuntimeError, LookupError, ImportError, TypeError, AttributeError),
        SafetensorError,
    ) as error:
        if checkpoint is None:
            raise ModelError(
                f"--model_name_or_path {source}: the model cannot be loaded: {_first_line(error)}"
            ) from error
        raise CheckpointError(
            f"--resume {checkpoint}: the checkpoint cannot be loaded: {_first_line(error)}. "
            "Move that folder away and --resume again: the checkpoint before it is taken, where "
            "there is one."
        ) from error


def _first_line(error: Exception) -> str:
    """Return the first line of an error, with its type if the message alone is unclear."""
    line = next(iter(str(error).splitlines()), "").rstrip(".: ")
    if isinstance(error, (OSError, ValueError)) and line:
        return line
    return f"{type(error).__name__} {line}".rstrip()


def configure_policy(
    policy: ActorCritic,
    config: TrainConfig,
    checkpoint: Path | None,
    device: torch.device,
    roles: Sequence[str] = (),
) -> None:
    """Attach adapters, critic and reference to a policy, by the settings.

    SettingError if a file does not fit.
    """
    import torch
    from safetensors import SafetensorError

    from fctncalling.algorithms.policy.gradient_checkpointing import checkpointable_layers
    from fctncalling.algorithms.policy.precision import compute_dtype, set_compute_dtype
    from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model

    if config.gradient_checkpointing:
        checkpointable_layers(policy.model.get_decoder())  # SettingError where it has none
    dtype = compute_dtype(config, device)
    if config.critic == "full":
        policy.add_critic_model()
    if config.lora_r:
        try:
            policy.add_lora(
                r=config.lora_r,
                alpha=config.lora_alpha,
                targets=config.lora_targets,
                critic=config.critic == "lora",
                roles=roles if config.role_adapters else (),
            )
        except ValueError as error:
            raise SettingError(f"lora_targets {config.lora_targets}: {error}") from error
        if checkpoint is not None and policy.adapters is not None:
            policy.adapters.load(checkpoint)
            policy.load_critic(checkpoint)
    if config.critic == "full" and checkpoint is not None:
        policy.load_critic(checkpoint)
    if config.kl_coef and not config.lora_r:
        reference = load_pretrained_model(base_model(config), dtype=torch.float32).to(device)
        set_compute_dtype(reference, dtype, device, fp32_head=config.cast_lm_head_to_fp32)
        policy.set_reference(reference)
    if config.init_critic_from is not None and checkpoint is None:
        folder = Path(config.init_critic_from)
        kind = critic_kind(folder)
        if kind not in (None, config.critic):  # it must read the same features
            raise SettingError(
                f"--init_critic_from {folder}: its critic was trained with --critic {kind}, this "
                f"run's is {config.critic}; give --critic {kind}"
            )
        try:
            policy.load_critic(folder)
        except (ValueError, RuntimeError, OSError, SafetensorError) as error:
            raise SettingError(f"--init_critic_from: {error}") from error
    set_compute_dtype(policy.model, dtype, device, fp32_head=config.cast_lm_head_to_fp32)
    if policy.critic_model is not None:
        set_compute_dtype(policy.critic_model, dtype, device)


def critic_kind(folder: Path) -> str | None:
    """Return a checkpoint's kind of critic (--critic); None if it has none."""
    from fctncalling.algorithms.policy.lora import CRITIC
    from fctncalling.algorithms.policy.value_head import CRITIC_MODEL_FILE, find_value_head_file

    if (folder / CRITIC_MODEL_FILE).is_file():
        return "full"
    if (folder / CRITIC).is_dir():
        return "lora"
    return "head" if find_value_head_file(folder) else None


def base_model(config: TrainConfig) -> str:
    """Return the base model of a run, a folder or hub name.

    The reference, whatever was learned since. A GGUF file is converted first, once.
    """
    if config.model_name_or_path is None:
        return str(embedded_path(ENV_MODELS.get(config.env_name, "model")))
    try:
        return resolve_model_folder(
            config.model_name_or_path, lambda stage: announce(f"{stage} ...")
        )
    except (ImportFailure, OSError) as error:
        raise ModelError(f"--model_name_or_path {error}") from error
