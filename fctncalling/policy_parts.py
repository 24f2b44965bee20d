"""What a policy is completed with before a run: adapters, a critic of its own, a reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.data.bfcl import embedded_path
from fctncalling.training.run_config import JOB_MODELS

if TYPE_CHECKING:
    import torch

    from fctncalling.algorithms.policy.actor_critic import ActorCritic


def attach_parts(
    policy: ActorCritic, config: TrainConfig, checkpoint: Path | None, device: torch.device
) -> None:
    """Give the policy what the settings ask for beside the model; SettingError where a file does not fit."""
    from fctncalling.algorithms.policy.precision import compute_dtype, compute_in

    dtype = compute_dtype(config, device)
    if config.critic == "full":
        policy.add_critic_model()
    if config.lora_r:
        _adapt(policy, config, checkpoint)
    if config.critic == "full" and checkpoint is not None:
        policy.load_critic(checkpoint)
    if config.kl_coef and not config.lora_r:
        reference = _load_model(base_model(config)).to(device)
        compute_in(reference, dtype, device, fp32_head=config.cast_lm_head_to_fp32)
        policy.set_reference(reference)
    if config.init_critic_from is not None and checkpoint is None:
        _load_critic_from(policy, config, Path(config.init_critic_from))
    compute_in(policy.model, dtype, device, fp32_head=config.cast_lm_head_to_fp32)
    if policy.critic_model is not None:
        compute_in(policy.critic_model, dtype, device)


def weights_source(config: TrainConfig, checkpoint: Path | None) -> str:
    """Return where the language model's weights lie: in the checkpoint, unless that holds adapters alone."""
    return base_model(config) if checkpoint is None or config.lora_r else str(checkpoint)


def _adapt(policy: ActorCritic, config: TrainConfig, checkpoint: Path | None) -> None:
    """Put adapters into the policy, fresh ones or the checkpoint's; with them comes its critic."""
    try:
        policy.add_lora(
            r=config.lora_r,
            alpha=config.lora_alpha,
            targets=config.lora_targets,
            critic=config.critic == "lora",
        )
    except ValueError as error:
        raise SettingError(f"--lora_targets {config.lora_targets}: {error}") from error
    if checkpoint is not None and policy.adapters is not None:
        policy.adapters.load(checkpoint)
        policy.load_critic(checkpoint)


def _load_critic_from(policy: ActorCritic, config: TrainConfig, folder: Path) -> None:
    """Let the policy's critic be that of a checkpoint, which must read with what this run's reads with."""
    from safetensors import SafetensorError

    kind = critic_kind(folder)
    if kind is not None and kind != config.critic:
        raise SettingError(
            f"--init_critic_from {folder}: its critic was trained with --critic {kind}, this run's is {config.critic}; "
            f"give --critic {kind}"
        )
    try:
        policy.load_critic(folder)
    except (ValueError, RuntimeError, OSError, SafetensorError) as error:
        raise SettingError(f"--init_critic_from: {error}") from error


def critic_kind(folder: Path) -> str | None:
    """Return the --critic that a checkpoint was made with; None where it holds none."""
    from fctncalling.algorithms.policy.lora import CRITIC
    from fctncalling.algorithms.policy.actor_critic import CRITIC_MODEL_FILE
    from fctncalling.algorithms.policy.actor_critic import VALUE_HEAD_FILE

    if (folder / CRITIC_MODEL_FILE).is_file():
        return "full"
    if (folder / CRITIC).is_dir():
        return "lora"
    return "head" if (folder / VALUE_HEAD_FILE).is_file() else None


def base_model(config: TrainConfig) -> str:
    """Return the folder or hub name of the model that a run starts from: the reference, whatever was learned since."""
    return str(config.model_name_or_path or embedded_path(JOB_MODELS.get(config.env_name, "model")))


def _load_model(source: str) -> torch.nn.Module:
    import torch
    from transformers import AutoModelForCausalLM

    model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(
        source, dtype=torch.float32, trust_remote_code=False
    )
    return model
