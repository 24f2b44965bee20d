"""ActorCritic: a causal language model with a value head.

Log-probability and value of a token are both read at the position *before* it: there the model has
seen everything up to the token and nothing of it. So the value of an action's first token is the
value of its observation.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from fctncalling.algorithms.policy.gradient_checkpointing import (
    HeapTrimmingRunner,
    LayerOutputRecorder,
    LayerRunner,
    RecomputingRunner,
    run_without_checkpointing,
    use_layer_runner,
)
from fctncalling.algorithms.policy.lora import CRITIC, Adapters
from fctncalling.algorithms.policy.precision import refuse_half_precision
from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model
from fctncalling.algorithms.policy.progress_features import NUM_PROGRESS_FEATURES
from fctncalling.algorithms.policy.shared_prefixes import (
    PrefixSharing,
    PrefixTree,
    prefix_sharing_of,
    runs_by_segment,
    tree_states_at,
)
from fctncalling.algorithms.policy.sparse_forward import (
    hidden_states_at,
    supports_sparse_forward,
    token_logprobs_and_entropies,
)
from fctncalling.algorithms.policy.value_head import (
    has_value_head_to_load,
    load_critic,
    make_value_head,
    save_critic,
)


def decoder_states_at(
    model: Any,  # the causal language model
    decoder: Any,  # its own, or a copy of that
    ids: Tensor,  # (B, T)
    attention_mask: Tensor,  # (B, T) bool
    position_ids: Tensor | None,  # (B, T); None: counted over the attended tokens of each row
    rows: Tensor,  # (N,) ascending
    columns: Tensor,  # (N,) ascending within each row
    tree: PrefixTree | None = None,  # of the rows, padded on the right
    run: LayerRunner = run_without_checkpointing,  # calls the layers
    num_layers: int = 1,
) -> Tensor:
    """Return decoder states at N positions of rows, hidden ones, (N, H); computes no logits.

    They are the last layer's, after the final norm; with num_layers those of so many last ones,
    side by side, (N, num_layers x H).
    """
    if num_layers > 1:
        if tree is not None and not runs_by_segment(model, decoder):
            tree = None  # its forward would lay the trees side by side
        kept = LayerOutputRecorder(run)
        last = decoder_states_at(
            model, decoder, ids, attention_mask, position_ids, rows, columns, tree, kept
        )
        places = (rows, columns) if tree is None else (tree.row_index[rows, columns],)
        below = kept.outputs[: model.config.num_hidden_layers - 1][1 - num_layers :]
        return torch.cat([*(layer[places] for layer in below), last], dim=-1)
    if tree is not None:
        return tree_states_at(model, decoder, tree, rows, columns, run)
    mask: Tensor | None = attention_mask
    if position_ids is None and _padded_right(attention_mask):
        # A causal model never looks right: no mask is needed, and attention without one is faster.
        if supports_sparse_forward(model, decoder):
            return hidden_states_at(decoder, ids, rows, columns, run)
        mask, position_ids = None, torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    elif position_ids is None:
        # Explicit: models with absolute positions would count the padding on the left.
        position_ids = (attention_mask.long().cumsum(1) - 1).clamp(min=0)
    with use_layer_runner(decoder, run):
        outputs = decoder(
            input_ids=ids, attention_mask=mask, position_ids=position_ids, use_cache=False
        )
    states: Tensor = outputs.last_hidden_state[rows, columns]
    return states


def acted_positions(acted: Tensor) -> tuple[Tensor, Tensor]:
    """Return positions of the N acted tokens: rows and columns; ValueError where one is first."""
    rows, columns = acted.nonzero(as_tuple=True)
    if bool((columns == 0).any()):
        raise ValueError(
            "acted[:, 0] is true: the first token of a row has no token before it to be predicted "
            "from"
        )
    return rows, columns


def _padded_right(attention_mask: Tensor) -> bool:
    """Return whether no row has padding before a token."""
    return bool((attention_mask[:, :-1] >= attention_mask[:, 1:]).all())


class CriticRows(NamedTuple):
    """Rows that a central critic reads, one for each of the actor's B rows, padded to T'.

    They have the same acted tokens in the same order, with more in front of each: what the whole
    team had read and said by then.
    """

    ids: Tensor  # (B, T')
    attention_mask: Tensor  # (B, T') bool
    acted: Tensor  # (B, T') bool


class TokenOutputs(NamedTuple):
    """Outputs for the N acted tokens of a pass: log-probs, entropies and values, in fp32."""

    logprobs: Tensor  # (N,) of the token that was sampled, at the sampling temperature
    entropies: Tensor  # (N,) of the distribution it was sampled from, in nats
    values: Tensor  # (N,) of the state before the token
    value_scores: Tensor  # (N, K) the value head's output that they are made of


class ActorCritic(nn.Module):
    """Actor-critic: a causal language model and a value head, in one forward pass.

    `model` is any transformers causal language model (anything with `get_decoder()`,
    `get_output_embeddings()` and `config`). With critic_detach the value loss trains the head alone
    and leaves the language model untouched. critic_layers: so many last layers' states the value
    head reads. critic_sees_progress: it reads progress features beside them. critic_roles: roles of
    a team that get a value head each; none: one for all.
    """

    def __init__(
        self,
        model: Any,
        *,
        critic_head: str = "mlp",
        critic_hidden: int = 128,
        critic_layers: int = 1,
        critic_sees_progress: bool = False,
        bin_centres: Sequence[float] = (),
        critic_detach: bool = False,
        critic_roles: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.model = model
        self.num_progress_features = NUM_PROGRESS_FEATURES if critic_sees_progress else 0
        self.value_head = make_value_head(
            critic_layers * model.config.hidden_size + self.num_progress_features,
            critic_roles,
            kind=critic_head,
            width=critic_hidden,
            bin_centres=bin_centres,
        )
        self.critic_layers = critic_layers
        self.critic_detach = critic_detach
        self.critic_model: nn.Module | None = None  # the critic's own backbone (a decoder)
        self.adapters: Adapters | None = None
        # In a tuple, so that torch does not register it: not in parameters(), not in saved files.
        self._reference: tuple[Any, ...] = ()
        refuse_half_precision(self)

    def forward(
        self,
        ids: Tensor,  # (B, T)
        attention_mask: Tensor,  # (B, T) bool, false on padding, left or right
        acted: Tensor,  # (B, T) bool, true at the N tokens to return outputs of
        tree: PrefixTree | None = None,  # of the rows, to compute shared tokens once
        role: str = "",  # whose rows these are, where roles have adapters or value heads
        critic_rows: CriticRows | None = None,  # what the critic reads in their place
        progress: Tensor | None = None,  # (N, F) what it reads beside the hidden states
        *,
        temperature: float = 1.0,
        # (B, T); default: counted over the attended tokens of each row
        position_ids: Tensor | None = None,
        entropy_gradient: bool = False,
        gradient_checkpointing: bool = False,
    ) -> TokenOutputs:
        """Forward pass: log-probabilities, entropies and values of the N acted tokens.

        Logits are computed at the positions before these alone. temperature: that of sampling, so
        that the distribution trained is the one that acts. gradient_checkpointing: layers keep
        their inputs alone, and the backward pass computes them again.
        """
        rows, columns = acted_positions(acted)
        run = self._layer_runner(self._actor(role), recompute=gradient_checkpointing)
        layers = 1 if self._critic_has_own_backbone else self.critic_layers
        with self._use(self._actor(role)):
            hidden = decoder_states_at(
                self.model,
                self.model.get_decoder(),
                ids,
                attention_mask,
                position_ids,
                rows,
                columns - 1,
                tree=tree,
                run=run,
                num_layers=layers,
            )
            logprobs, entropies = token_logprobs_and_entropies(
                self.model,
                hidden[:, -self.model.config.hidden_size :] if layers > 1 else hidden,  # (N, H)
                ids[rows, columns],
                temperature=temperature,
                entropy_gradient=entropy_gradient,
            )
        if self._critic_has_own_backbone:
            hidden = self.critic_states(
                *(ids, attention_mask, acted, tree, role, critic_rows, progress),
                position_ids=position_ids,
                gradient_checkpointing=gradient_checkpointing,
            )
        else:
            hidden = self._with_progress(hidden, progress)
        scores = self._value_scores(hidden, role)
        return TokenOutputs(
            logprobs, entropies, self.value_head.head_of_role(role).values(scores), scores
        )

    def critic_states(
        self,
        ids: Tensor,
        attention_mask: Tensor,
        acted: Tensor,
        tree: PrefixTree | None = None,
        role: str = "",
        critic_rows: CriticRows | None = None,
        progress: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        gradient_checkpointing: bool = False,
    ) -> Tensor:
        """Return the critic's states, which the value head reads at the N acted tokens.

        Arguments as `forward`'s.
        """
        if critic_rows is not None:
            (ids, attention_mask, acted), tree = critic_rows, None
        rows, columns = acted_positions(acted)
        run = self._layer_runner(CRITIC, recompute=gradient_checkpointing)
        states = self._critic_states(
            role, ids, attention_mask, position_ids, rows, columns - 1, tree, run
        )
        return self._with_progress(states, progress)

    def values_at(
        self,
        ids: Tensor,  # (B, T)
        attention_mask: Tensor,  # (B, T) bool
        columns: Tensor,  # (B,) column of the last token before the value, one a row
        tree: PrefixTree | None = None,
        role: str = "",
        progress: Tensor | None = None,  # (B, F)
        *,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """Return the values at tokens, behind those in `columns`, (B,), of cut episodes."""
        rows = torch.arange(len(ids), device=ids.device)
        states = self._critic_states(role, ids, attention_mask, position_ids, rows, columns, tree)
        scores = self._value_scores(self._with_progress(states, progress), role)
        return self.value_head.head_of_role(role).values(scores)

    def set_reference(self, model: Any) -> None:
        """Set the reference model of the KL, frozen; with LoRA the base serves."""
        self._reference = (ActorCritic(model.requires_grad_(False).eval(), critic_head="linear"),)

    @torch.no_grad()
    def reference_logprobs(
        self,
        ids: Tensor,
        attention_mask: Tensor,
        acted: Tensor,
        tree: PrefixTree | None = None,
        role: str = "",
        critic_rows: CriticRows | None = None,
        progress: Tensor | None = None,
        *,
        temperature: float = 1.0,
    ) -> Tensor:
        """Return the reference model's logprobs of the acted tokens, (N,).

        Arguments as `forward`'s. It is the same for all roles.
        """
        rows, columns = acted.nonzero(as_tuple=True)
        reference: ActorCritic = self._reference[0] if self._reference else self
        if reference is self and self.adapters is None:
            raise ValueError(
                "no reference model: call set_reference(model) before an update with "
                "--kl_coef above 0"
            )
        with self._use(None):
            hidden = decoder_states_at(
                reference.model,
                reference.model.get_decoder(),
                ids,
                attention_mask,
                None,
                rows,
                columns - 1,
                tree,
            )
        return token_logprobs_and_entropies(
            reference.model,
            hidden,
            ids[rows, columns],
            temperature=temperature,
            entropy_gradient=False,
        )[0]

    def policy_parameters(self) -> Iterator[nn.Parameter]:
        """Return the policy's parameters, trainable ones; with LoRA the actor's adapters."""
        if self.adapters is not None:
            return iter(self.adapters.actor_parameters())
        return (parameter for parameter in self.model.parameters() if parameter.requires_grad)

    def critic_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters of the critic: the value head, its own adapter or model."""
        yield from self.value_head.parameters()
        if self.critic_model is not None:
            yield from self.critic_model.parameters()
        if self.adapters is not None and CRITIC in self.adapters.names:
            yield from self.adapters.parameters(CRITIC)

    def add_critic_model(self) -> None:
        """Add a model of the critic's own: a copy of the backbone, trained by the value loss."""
        self.critic_model = copy.deepcopy(self.model.get_decoder()).float().requires_grad_(True)
        refuse_half_precision(self)

    def add_lora(
        self,
        *,
        r: int,
        alpha: float,
        targets: str = "all-linear",
        critic: bool = False,
        roles: Sequence[str] = (),
    ) -> None:
        """Add LoRA: adapters for the actor, or for each role; the language model is frozen.

        With `critic`, another one for the critic.
        """
        self.adapters = Adapters(self.model, r=r, alpha=alpha, targets=targets, roles=roles)
        if critic:
            self.adapters.add(CRITIC)
        refuse_half_precision(self)

    def save(self, folder: str | Path) -> None:
        """Save the policy: a Hugging Face model folder, or peft adapter folder, and critic files.

        The policy itself is not changed.
        """
        if self.adapters is not None:
            self.adapters.save(folder)
        else:
            self.model.save_pretrained(folder)
        save_critic(Path(folder), self.value_head, self.critic_model)

    def load_critic(self, folder: str | Path) -> None:
        """Load the critic of a saved policy: value head, critic model and critic adapter.

        As far as this one has them. ValueError where it is missing, or of another kind or shape.
        """
        load_critic(Path(folder), self.value_head, self.critic_model, self.adapters)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        dtype: torch.dtype = torch.float32,
        **critic: Any,
    ) -> Self:
        """Load the policy of a model folder or hub name, with a new value head if none was saved.

        dtype: of the language model's weights, which are frozen unless it is fp32. critic: the
        keywords of an ActorCritic.
        """
        model = load_pretrained_model(name_or_path, dtype=dtype)
        model.requires_grad_(dtype == torch.float32)
        policy = cls(model, **critic)
        if has_value_head_to_load(Path(name_or_path), policy.value_head):
            policy.load_critic(name_or_path)
        return policy

    @functools.cached_property
    def prefix_sharing(self) -> PrefixSharing | str:
        """Prefix sharing of this policy's passes, or why they cannot; ask before sharding."""
        return prefix_sharing_of(self.model, self.model.get_decoder())

    @property
    def _critic_has_own_backbone(self) -> bool:
        """Whether the critic's hidden states come from its own model or adapter."""
        return self.critic_model is not None or (
            self.adapters is not None and CRITIC in self.adapters.names
        )

    def _critic_states(self, role: str, *read: Any) -> Tensor:
        """Return the hidden states that the value head takes, (N, layers x H).

        After the role the arguments of `decoder_states_at`.
        """
        read_layers: Any = functools.partial(decoder_states_at, num_layers=self.critic_layers)
        states: Tensor
        if self.critic_model is not None:
            states = read_layers(self.model, self.critic_model, *read)
            return states
        has_adapter = self.adapters is not None and CRITIC in self.adapters.names
        with self._use(CRITIC if has_adapter else self._actor(role)):
            states = read_layers(self.model, self.model.get_decoder(), *read)
        return states

    def _with_progress(self, hidden: Tensor, progress: Tensor | None) -> Tensor:
        """Return hidden states with progress features beside them, 0 where there are none."""
        if not self.num_progress_features:
            return hidden
        if progress is None:  # a pass whose values nobody reads
            progress = hidden.new_zeros(len(hidden), self.num_progress_features)
        return torch.cat([hidden, progress.to(hidden.dtype)], dim=-1)

    def _actor(self, role: str) -> str | None:
        """Return the name of the adapter that acts for a role; None without adapters."""
        return None if self.adapters is None else self.adapters.actor_adapter_name(role)

    def _use(self, adapter: str | None) -> contextlib.AbstractContextManager[None]:
        """Context manager: an adapter is active, or with None the base alone."""
        return contextlib.nullcontext() if self.adapters is None else self.adapters.use(adapter)

    def _layer_runner(self, adapter: str | None, *, recompute: bool) -> LayerRunner:
        """Return how a pass calls its layers; adapter: active again while they are recomputed."""
        return RecomputingRunner(lambda: self._use(adapter)) if recompute else HeapTrimmingRunner()

    def _value_scores(self, hidden: Tensor, role: str) -> Tensor:
        return self.value_head.head_of_role(role).scores(
            hidden.detach() if self.critic_detach else hidden
        )
