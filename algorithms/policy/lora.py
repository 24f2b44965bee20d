"""Named LoRA adapters for actor and critic on one frozen base (Hu et al. 2021).

The base's weights never change; adapters are trained in fp32 whatever the base's precision. The
actor has one adapter, or one for each role of a team.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from fctncalling.algorithms.config import SettingError

ACTOR = "default"  # peft writes this one into the folder itself, so that plain peft loads it
ADAPTER_FILE = "adapter_model.safetensors"
CRITIC = "critic"  # saved in a subfolder of this name
ROLE_PREFIX = "role_"  # of the adapter of a role, and of its subfolder


def role_adapter_name(role: str) -> str:
    """Return the name of a role's LoRA adapter; that of the only one where there are no roles."""
    return ROLE_PREFIX + role if role else ACTOR


class Adapters:
    """LoRA adapters of a language model by name, one or none of them active.

    The caller's model object stays usable as before. peft's own switching freezes the adapters it
    deactivates; here all stay trainable.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        r: int,
        alpha: float,
        targets: str = "all-linear",
        roles: Sequence[str] = (),
    ) -> None:
        """targets: "all-linear" (all but the output), or comma-separated layer names.

        roles: whose adapters to make; none: one adapter for the actor.
        """
        from peft import LoraConfig, get_peft_model

        names: Any = (
            targets if targets == "all-linear" else [name.strip() for name in targets.split(",")]
        )
        self.config = LoraConfig(task_type="CAUSAL_LM", r=r, lora_alpha=alpha, target_modules=names)  # type: ignore[arg-type]
        language_model: Any = model
        # peft reads an attribute that transformers has renamed; the user cannot fix that.
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
        self.roles = tuple(roles)
        first, *others = [role_adapter_name(role) for role in roles or ("",)]
        try:
            self.peft: Any = get_peft_model(language_model, self.config, adapter_name=first)
        except ValueError as error:
            linear = {
                name.rpartition(".")[2]
                for name, layer in model.named_modules()
                if isinstance(layer, nn.Linear)
            }
            raise SettingError(
                f"lora_targets {targets}: expected all-linear, or layers of the model: "
                f"{', '.join(sorted(linear))}"
            ) from error
        self.active: str | None = first  # None: the base alone
        self.activate(first)
        for name in others:
            self.add(name)

    def add(self, name: str, folder: str | Path | None = None) -> None:
        """Add an adapter, a new one or that of a folder; the active one stays active."""
        if folder is None:
            self.peft.add_adapter(name, self.config)
        else:
            self.peft.load_adapter(str(folder), adapter_name=name, is_trainable=True)
        self.activate(self.active)

    def load(self, folder: str | Path, names: Sequence[str] | None = None) -> None:
        """Load saved weights into the named adapters (default: all there are).

        ValueError where the folder has no such adapter, or one of another rank or for other layers.
        """
        from peft import set_peft_model_state_dict
        from peft.utils import load_peft_weights

        for name in self.names if names is None else names:
            path = Path(folder) if name == ACTOR else Path(folder) / name
            if not (path / ADAPTER_FILE).is_file():
                raise ValueError(f"{path} holds no adapter ({ADAPTER_FILE} is missing)")
            saved = load_peft_weights(str(path), device="cpu")
            expected = {key.replace(f".{name}.", "."): it.shape for key, it in self._named(name)}
            if {key: it.shape for key, it in saved.items()} != expected:
                raise ValueError(
                    f"{path}: the saved adapter is of another --lora_r, or for other lora_targets"
                )
            set_peft_model_state_dict(self.peft, saved, adapter_name=name)

    def save(self, folder: str | Path) -> None:
        """Save the adapters as a peft folder (the critic's in a subfolder)."""
        self.peft.save_pretrained(
            str(folder), selected_adapters=self.names, save_embedding_layers=False
        )

    @property
    def names(self) -> list[str]:
        """Names of all adapters."""
        return list(self.peft.peft_config)

    def parameters(self, name: str) -> list[nn.Parameter]:
        """Return the parameters of one adapter."""
        return [weight for _, weight in self._named(name)]

    def actor_adapter_name(self, role: str) -> str | None:
        """Return the name of the adapter that acts for a role.

        Without roles the active one (None: the base alone). SettingError for a role without
        adapter.
        """
        if self.roles and role not in self.roles:
            raise SettingError(
                f'--role_adapters: the environment\'s info["role"] is "{role}", expected one of '
                f"its attribute roles: {', '.join(self.roles)}"
            )
        return role_adapter_name(role) if self.roles else self.active

    def actor_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the actor's adapters, one or one a role."""
        names = [role_adapter_name(role) for role in self.roles] or [self.active or ACTOR]
        return [weight for name in names for weight in self.parameters(name)]

    @contextlib.contextmanager
    def use(self, name: str | None) -> Iterator[None]:
        """Context manager: use an adapter, or None for the base alone, then restore."""
        before = self.active
        if name == before:
            yield
            return
        self.activate(name)
        try:
            yield
        finally:
            self.activate(before)

    def activate(self, name: str | None) -> None:
        """Activate an adapter, or None for the base alone."""
        from peft.tuners.tuners_utils import BaseTunerLayer

        self.active = name
        for layer in self.peft.modules():
            if isinstance(layer, BaseTunerLayer):
                layer.enable_adapters(name is not None)
                if name is not None:
                    layer.set_adapter([name])
        for path, weight in self.peft.named_parameters():
            weight.requires_grad_("lora_" in path)

    def _named(self, name: str) -> list[tuple[str, nn.Parameter]]:
        """Return the weights of one adapter with their paths."""
        return [
            item
            for item in self.peft.named_parameters()
            if f".{name}." in item[0] and "lora_" in item[0]
        ]
