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
from torch.utils.checkpoint import checkpoint

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
)
from fctncalling.algorithms.policy.value_head import (
    has_value_head_to_load,
    load_critic,
    make_value_head,
    save_critic,
)

MAX_LOGITS = 2**24  # (positions x vocabulary) of one chunk: 64 MiB in fp32


class Batch(NamedTuple):
    """Batch of B rows for one forward pass, padded to T tokens on the left or right."""

    ids: Tensor  # (B, T) int64, 0 on padding
    # (B, T) bool, false on padding; never inferred from ids: 0 may be a real token
    attention_mask: Tensor
    acted: Tensor  # (B, T) bool, true at the N tokens that the policy sampled
    tree: PrefixTree | None = None  # of the rows, to compute shared tokens once
    role: str = ""  # of the rows, where roles have adapters or value heads
    # rows that a central critic reads in place of these: the same acted tokens in the same order,
    # with more in front of each, what the whole team had read and said by then
    critic_rows: Batch | None = None

    def acted_positions(self) -> tuple[Tensor, Tensor]:
        """Return rows and columns of the acted tokens, (N,); ValueError if one is first."""
        rows, columns = self.acted.nonzero(as_tuple=True)
        if bool((columns == 0).any()):
            raise ValueError(
                "acted[:, 0] is true: the first token of a row has no token before it to be "
                "predicted from"
            )
        return rows, columns


def decoder_states_at(
    model: Any,  # the causal language model
    decoder: Any,  # its own, or a copy of that
    batch: Batch,
    rows: Tensor,  # (N,) ascending
    columns: Tensor,  # (N,) ascending within each row
    run: LayerRunner = run_without_checkpointing,  # calls the layers
    num_layers: int = 1,
) -> Tensor:
    """Return decoder states at N positions of rows, hidden ones, (N, H); computes no logits.

    They are the last layer's, after the final norm; with num_layers those of so many last ones,
    side by side, (N, num_layers x H).
    """
    ids, tree = batch.ids, batch.tree
    if num_layers > 1:
        if tree is not None and not runs_by_segment(model, decoder):
            tree = None  # its forward would lay the trees side by side
        kept = LayerOutputRecorder(run)
        last = decoder_states_at(model, decoder, batch._replace(tree=tree), rows, columns, kept)
        places = (rows, columns) if tree is None else (tree.row_index[rows, columns],)
        below = kept.outputs[: model.config.num_hidden_layers - 1][1 - num_layers :]
        return torch.cat([*(layer[places] for layer in below), last], dim=-1)
    if tree is not None:
        return tree_states_at(model, decoder, tree, rows, columns, run)
    mask: Tensor | None = None
    if bool((batch.attention_mask[:, :-1] >= batch.attention_mask[:, 1:]).all()):
        # Padded on the right: a causal model never looks there, so no mask is needed, and attention
        # without one is faster.
        if supports_sparse_forward(model, decoder):
            return hidden_states_at(decoder, ids, rows, columns, run)
        positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    else:
        # Explicit: models with absolute positions would count the padding on the left.
        mask = batch.attention_mask
        positions = (batch.attention_mask.long().cumsum(1) - 1).clamp(min=0)
    with use_layer_runner(decoder, run):
        outputs = decoder(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
        )
    states: Tensor = outputs.last_hidden_state[rows, columns]
    return states


def token_logprobs_and_entropies(
    model: Any, hidden: Tensor, tokens: Tensor, *, temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return logprobs and entropies of N tokens, (N,) fp32, from hidden states.

    model: a causal language model. Several chunks are checkpointed: each recomputes its logits in
    the backward pass, so that only one chunk's logits exist at a time.
    """
    chunk = max(1, MAX_LOGITS // model.get_output_embeddings().weight.shape[0])
    pieces = list(zip(torch.split(hidden, chunk), torch.split(tokens, chunk), strict=True))
    if len(pieces) <= 1:
        return _chunk(model, hidden, tokens, temperature, entropy_gradient)
    scores = [
        checkpoint(_chunk, model, *piece, temperature, entropy_gradient, use_reentrant=False)
        for piece in pieces
    ]
    logprobs, entropies = zip(*scores, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _chunk(
    model: Any, hidden: Tensor, tokens: Tensor, temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    logits = scale_logits(model.get_output_embeddings()(hidden).float(), model.config) / temperature
    log_softmax = logits.log_softmax(-1)  # (N, V)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropies = -(log_softmax.exp() * log_softmax).sum(-1)
    return log_softmax.gather(1, tokens[:, None]).squeeze(1), entropies


def scale_logits(logits: Tensor, config: Any) -> Tensor:
    """Scale or cap logits like the model's `forward` (Granite, Cohere; Gemma)."""
    if scaling := getattr(config, "logits_scaling", None):
        logits = logits / scaling
    if scale := getattr(config, "logit_scale", None):
        logits = logits * scale
    if cap := getattr(config, "final_logit_softcapping", None):
        logits = torch.tanh(logits / cap) * cap
    return logits


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
    head reads. critic_roles: roles of a team that get a value head each; none: one for all.
    """

    def __init__(
        self,
        model: Any,
        *,
        critic_head: str = "mlp",
        critic_hidden: int = 128,
        critic_layers: int = 1,
        bin_centres: Sequence[float] = (),
        critic_detach: bool = False,
        critic_roles: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.model = model
        self.value_head = make_value_head(
            critic_layers * model.config.hidden_size,
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
        batch: Batch,
        *,
        temperature: float = 1.0,
        entropy_gradient: bool = False,
        gradient_checkpointing: bool = False,
    ) -> TokenOutputs:
        """Forward pass: log-probabilities, entropies and values of the N acted tokens.

        Logits are computed at the positions before these alone. temperature: that of sampling, so
        that the distribution trained is the one that acts. gradient_checkpointing: layers keep
        their inputs alone, and the backward pass computes them again.
        """
        rows, columns = batch.acted_positions()
        adapter = self._actor(batch.role)
        run = self._layer_runner(adapter, recompute=gradient_checkpointing)
        layers = 1 if self._critic_has_own_backbone else self.critic_layers
        decoder = self.model.get_decoder()
        with self._use(adapter):
            hidden = decoder_states_at(self.model, decoder, batch, rows, columns - 1, run, layers)
            logprobs, entropies = token_logprobs_and_entropies(
                self.model,
                hidden[:, -self.model.config.hidden_size :] if layers > 1 else hidden,  # (N, H)
                batch.ids[rows, columns],
                temperature=temperature,
                entropy_gradient=entropy_gradient,
            )
        if self._critic_has_own_backbone:
            hidden = self.critic_states(batch, gradient_checkpointing=gradient_checkpointing)
        scores = self._value_scores(hidden, batch.role)
        values = self.value_head.head_of_role(batch.role).values(scores)
        return TokenOutputs(logprobs, entropies, values, scores)

    def critic_states(self, batch: Batch, *, gradient_checkpointing: bool = False) -> Tensor:
        """Return the critic's states, which the value head reads at the N acted tokens."""
        read = batch if batch.critic_rows is None else batch.critic_rows
        rows, columns = read.acted_positions()
        run = self._layer_runner(CRITIC, recompute=gradient_checkpointing)
        return self._critic_states(read, batch.role, rows, columns - 1, run)

    def values_at(self, batch: Batch, columns: Tensor) -> Tensor:
        """Return the values after the last tokens of cut episodes, (B,).

        columns: (B,), of each row's last token before the value; `acted` is not read.
        """
        rows = torch.arange(len(columns), device=columns.device)
        states = self._critic_states(batch, batch.role, rows, columns)
        scores = self._value_scores(states, batch.role)
        return self.value_head.head_of_role(batch.role).values(scores)

    def set_reference(self, model: Any) -> None:
        """Set the reference model of the KL, frozen; with LoRA the base serves."""
        self._reference = (ActorCritic(model.requires_grad_(False).eval(), critic_head="linear"),)

    @torch.no_grad()
    def reference_logprobs(self, batch: Batch, *, temperature: float = 1.0) -> Tensor:
        """Return the reference model's logprobs of the acted tokens, (N,), the same for all roles.

        temperature: as `forward`'s.
        """
        reference: ActorCritic = self._reference[0] if self._reference else self
        if reference is self and self.adapters is None:
            raise ValueError(
                "no reference model: call set_reference(model) before an update with "
                "--kl_coef above 0"
            )
        rows, columns = batch.acted_positions()
        model = reference.model
        with self._use(None):
            hidden = decoder_states_at(model, model.get_decoder(), batch, rows, columns - 1)
        tokens = batch.ids[rows, columns]
        return token_logprobs_and_entropies(
            model, hidden, tokens, temperature=temperature, entropy_gradient=False
        )[0]

    def policy_parameters(self) -> Iterator[nn.Parameter]:
        """Return the policy's parameters, trainable ones; with LoRA the actor's adapters."""
        if self.adapters is not None:
            return iter(self.adapters.actor_parameters())
        return (parameter for parameter in self.model.parameters() if parameter.requires_grad)

    def critic_parameters(self) -> Iterator[nn.Parameter]:
        """Return the critic's parameters: value head, critic adapter and critic model."""
        yield from self.value_head.parameters()
        if self.critic_model is not None:
            yield from self.critic_model.parameters()
        if self.adapters is not None and CRITIC in self.adapters.names:
            yield from self.adapters.parameters(CRITIC)

    def add_critic_model(self) -> None:
        """Add a critic model: a copy of the backbone, trained by the value loss."""
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
        """Whether the critic has a separate model or adapter."""
        return self.critic_model is not None or (
            self.adapters is not None and CRITIC in self.adapters.names
        )

    def _critic_states(
        self,
        batch: Batch,  # that the critic reads
        role: str,
        rows: Tensor,
        columns: Tensor,
        run: LayerRunner = run_without_checkpointing,
    ) -> Tensor:
        """Return the hidden states that the value head takes, (N, layers x H)."""
        layers = self.critic_layers
        if self.critic_model is not None:
            return decoder_states_at(
                self.model, self.critic_model, batch, rows, columns, run, layers
            )
        has_adapter = self.adapters is not None and CRITIC in self.adapters.names
        with self._use(CRITIC if has_adapter else self._actor(role)):
            decoder = self.model.get_decoder()
            return decoder_states_at(self.model, decoder, batch, rows, columns, run, layers)

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
