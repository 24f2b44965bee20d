"""TokenLog: write the token file of an update (layout: `fctncalling.data.token_file`)."""

from __future__ import annotations

import itertools
import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.learning_signal import is_fully_truncated
from fctncalling.algorithms.losses import Targets
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import TokenDiagnostics, find_algorithm
from fctncalling.data.timing import time_calls
from fctncalling.data.token_file import (
    FLOAT_FIELDS,
    SCHEMA_VERSION,
    TokenFile,
    token_file_path,
    write_token_file,
)

BRACKET, WORD = "[", "a"
UNDECODED = "\ufffd"


class TokenTexts:
    """Texts of token ids, cached.

    What the token adds behind a bracket, for alone tokenizers strip a space or mark.

    Some tokenizers, as WordPiece's, spell no space between two words: it is implied.
    """

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._pieces: dict[int, str] = {}

    @cached_property
    def _bracket(self) -> list[int]:
        return self._template.encode(BRACKET)[-1:]

    @cached_property
    def _implies_spaces(self) -> bool:
        word = self._template.encode(WORD)[-1:]
        text = self._template.spell
        return bool(word) and text(word * 2) == f"{text(word)} {self._piece(word[0])}"

    def token_texts(self, ids: Sequence[int]) -> dict[int, str]:
        """Return the text of each token id; its name in brackets if it is no whole character."""
        return {token: self._piece(token) for token in ids}

    def implied_spaces(self, rows: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
        """Return implied spaces: for each token of all rows whether there is one before it."""
        if not self._implies_spaces:
            return np.zeros(sum(map(len, rows)), dtype=np.bool_)
        spaces = itertools.chain.from_iterable(map(self._spaces, rows))
        return np.fromiter(spaces, dtype=np.bool_)

    def _spaces(self, ids: Sequence[int]) -> Iterator[bool]:
        """Yield where the decoded row has a space that no token spells.

        False from the first token on that does not fit.
        """
        text, place, fits = self._template.spell(ids), 0, True
        for token in ids:
            piece = self._piece(token)
            space = fits and not text.startswith(piece, place)
            fits = fits and text.startswith(piece, place + space)
            yield space and fits and text[place] == " "
            place += space + len(piece)

    def _piece(self, token: int) -> str:
        if token not in self._pieces:
            text = self._template.spell([*self._bracket, token])
            opening = self._template.spell(self._bracket)
            whole = text.startswith(opening) and UNDECODED not in text
            self._pieces[token] = text[len(opening) :]
            if not whole:
                name = self._template.tokenizer.convert_ids_to_tokens([token])[0]
                self._pieces[token] = f"[{name}]"
        return self._pieces[token]


logger = logging.getLogger(__name__)
Numbers = Mapping[str, NDArray[Any]]
SETTINGS = (
    *("algorithm_name", "lam", "lam_value", "gamma_token", "lam_token"),
    *("clip_low", "clip_high", "dual_clip", "group_std", "group_credit"),
    *("group_baseline", "critic"),
)
"""Settings that the header holds as they are."""


class TokenLog:
    """Log of tokens: writes token files below a run's folder."""

    def __init__(self, folder: Path, config: TrainConfig, texts: TokenTexts) -> None:
        self._folder = folder
        self._config = config
        self._texts = texts
        self.failures = 0

    @time_calls("token files")
    def write(
        self,
        update: int,
        episodes: Sequence[EpisodeRecord],  # as in episodes/train_{update}.jsonl
        reasons: Sequence[str | None],  # of each episode: why nothing is learned from it
        trace: TokenDiagnostics,
    ) -> None:
        """Write the token file of an update, or warn that it could not be written."""
        try:
            contents = token_file_contents(
                update, episodes, reasons, trace, self._config, self._texts
            )
            write_token_file(token_file_path(self._folder, update), contents)
        except Exception as error:  # whatever it is: a run of hours is worth more
            self.failures += 1
            logger.warning(
                "update %d: no token file (%s: %s); training goes on, %d missing so far",
                *(update, type(error).__name__, error, self.failures),
            )


def exclusion_reasons(
    episodes: Sequence[EpisodeRecord], usable: Sequence[EpisodeRecord], config: TrainConfig
) -> list[str | None]:
    """Return the exclusion reasons of episodes from learning; None for one that is not."""
    learned = {id(each.episode) if each.role else id(each) for each in usable}

    def reason(episode: EpisodeRecord) -> str | None:
        if episode.invalid:
            return f"invalid: {episode.invalid_reason or 'infrastructure failed'}"
        if not any(any(row.acted) for row in episode.rows):
            return "no action: the prompt left no room within --max_episode_tokens"
        if id(episode.episode if episode.roles else episode) in learned:
            return None
        if config.overlong == "mask" and is_fully_truncated(episode):
            return "all of its actions were cut by --max_new_tokens (--overlong mask)"
        return "its group earned all the same (--dynamic_sampling)"

    return [reason(episode) for episode in episodes]


def token_file_contents(
    update: int,
    episodes: Sequence[EpisodeRecord],
    reasons: Sequence[str | None],
    trace: TokenDiagnostics,
    config: TrainConfig,
    texts: TokenTexts,
) -> TokenFile:
    """Return the contents of the token file of an update."""
    rows = [row for episode in episodes for row in episode.rows]
    row_episode = np.repeat(np.arange(len(episodes)), [len(each.rows) for each in episodes])
    lengths = [len(row.ids) for row in rows]

    def joined(name: str, dtype: Any) -> NDArray[Any]:
        parts = [np.asarray(getattr(row, name), dtype=dtype) for row in rows]
        return np.concatenate([np.zeros(0, dtype=dtype), *parts])

    ids, acted = joined("ids", np.int32), joined("acted", np.bool_)
    numbers = acted_token_arrays(trace, config)
    in_update = np.array([bool(numbers) and reason is None for reason in reasons], dtype=np.bool_)
    row_of_token = np.repeat(np.arange(len(rows)), lengths)
    learned = acted & in_update[row_episode][row_of_token]

    def scattered(name: str) -> NDArray[np.float32]:
        """Return numbers of the learned tokens at their places, NaN elsewhere."""
        everywhere = np.full(len(acted), np.nan, dtype=np.float32)
        if name in numbers:
            everywhere[learned] = numbers[name]
        return everywhere

    # of each episode, or role, at its last row
    bootstrap = np.full(len(rows), np.nan, dtype=np.float32)
    if "bootstrap" in numbers:
        parts = [(int(episode), row.role) for episode, row in zip(row_episode, rows, strict=True)]
        last = {part: row for row, part in enumerate(parts)}
        places = row_of_token[learned].tolist()
        for row, value in zip(places, numbers["bootstrap"].tolist(), strict=True):
            bootstrap[last[parts[row]]] = value
    floats = {name: scattered(name) for name in FLOAT_FIELDS if name != "rollout_logprobs"}
    logprobs = joined("rollout_logprobs", np.float32)
    pieces = texts.token_texts(np.unique(ids).tolist())
    return TokenFile(
        header={**_header(update, episodes, reasons, trace, config), "pieces": pieces},
        ids=ids,
        acted=acted,
        ends_action=joined("ends_action", np.bool_),
        space_before=texts.implied_spaces([row.ids for row in rows]),
        row_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        row_episode=row_episode.astype(np.int32),
        rollout_logprobs=np.where(acted, logprobs, np.float32(np.nan)),
        in_loss=scattered("in_loss") == 1.0,
        clipped=np.nan_to_num(scattered("clipped")).astype(np.int8),
        bootstrap=bootstrap,
        **floats,
    )


def acted_token_arrays(trace: TokenDiagnostics, config: TrainConfig) -> Numbers:
    """Return the acted-token arrays, (N,), of an update for its token file."""
    targets, experience = trace.targets, trace.experience
    if targets is None or experience is None:
        return {}
    has_critic = find_algorithm(config.algorithm_name).critic
    action = experience.tokens.action
    # That of an action at all of its tokens: of APPO's one token alone enters the loss; NaN for
    # actions of which none does.
    mask, advantages = targets.loss_mask, targets.advantages
    of_action = torch.full((int(action.max()) + 1,), torch.nan, device=advantages.device)
    of_action[action[mask]] = advantages[mask]
    advantages = torch.where(mask, advantages, of_action[action])
    ratio = trace.terms["log_ratios"].exp()
    tensors = {
        "old_logprobs": targets.old_logprobs,
        "new_logprobs": trace.terms["logprobs"],
        "rewards": targets.rewards,
        "advantages": advantages,
        "raw_advantages": targets.raw_advantages,
        "returns": targets.returns,
        "ratio": ratio,
        "clipped": _clip_states(ratio, advantages, config),
        "entropy": trace.terms["token_entropies"],
        "in_loss": targets.loss_mask,
    }
    if has_critic:
        tensors |= {"values": targets.values, "bootstrap": targets.bootstrap, "lam": targets.lam}
    if config.kl_coef:
        tensors["ref_logprobs"] = targets.reference_logprobs
        tensors["kl"] = trace.terms["token_reference_kl"]
    return {name: tensor.float().cpu().numpy() for name, tensor in tensors.items()}


def whitening_moments(targets: Targets) -> tuple[float, float] | None:
    """Return the moments of the whitening: mean and divisor.

    Also after --permute_advantages; None if they are all 0.
    """
    raw, whitened = (
        each[targets.loss_mask].double() for each in (targets.raw_advantages, targets.advantages)
    )
    if not whitened.any():
        return None
    divisor = float(raw.std(correction=0) / whitened.std(correction=0))
    return float(raw.mean()) - divisor * float(whitened.mean()), divisor


def _header(
    update: int,
    episodes: Sequence[EpisodeRecord],
    reasons: Sequence[str | None],
    trace: TokenDiagnostics,
    config: TrainConfig,
) -> dict[str, Any]:
    has_signal = trace.targets is not None and bool(trace.targets.advantages.any())
    whitens = find_algorithm(config.algorithm_name).critic and config.whiten_advantages
    whitening = whitening_moments(trace.targets) if trace.targets is not None and whitens else None
    known: dict[object, int] = {}
    groups = [known.setdefault(episode.group_key, len(known)) for episode in episodes]
    numbers: dict[tuple[int, str], int] = {}  # of a group's states: a digit or two, not a hash
    counts = Counter[int]()
    name = f"train_{update:06d}"
    descriptions: list[dict[str, Any]] = []
    for line, (episode, reason, group) in enumerate(zip(episodes, reasons, groups, strict=True), 1):
        earned = float(episode.episode_return)
        description: dict[str, Any] = {
            "episode_id": f"{name}:{line}",
            "line": line,
            "task_id": episode.task_id,
            "category": episode.category,
            "success": bool(episode.success),
            "invalid": bool(episode.invalid),
            "terminated": bool(episode.terminated),
            "truncated": bool(episode.truncated),
            "return": earned if math.isfinite(earned) else 0.0,
            "learned_from": reason is None,
            "reason": reason,
            "group": group,
        }
        if config.group_baseline == "state":
            for state in episode.state_hashes:
                if (group, state) not in numbers:
                    numbers[group, state] = counts[group]
                    counts[group] += 1
            description["states"] = [numbers[group, state] for state in episode.state_hashes]
        descriptions.append(description)
    return {
        "schema_version": SCHEMA_VERSION,
        "update": update,
        "episodes_file": f"episodes/{name}.jsonl",
        "gamma": config.resolved_gamma,
        "group_size": config.episodes_per_task,
        **{name: getattr(config, name) for name in SETTINGS},
        "whitening_mean": whitening[0] if whitening else None,
        "whitening_std": whitening[1] if whitening else None,
        "has_signal": has_signal,
        "episodes": descriptions,
    }


def _clip_states(ratio: Tensor, advantages: Tensor, config: TrainConfig) -> Tensor:
    """Return 1 at ratios clipped above, -1 at ratios clipped below, else 0, (N,)."""
    above = (advantages > 0) & (ratio > 1.0 + config.clip_high)
    if config.dual_clip is not None:
        above |= (advantages < 0) & (ratio > config.dual_clip)
    below = (advantages < 0) & (ratio < 1.0 - config.clip_low)
    return above.float() - below.float()
