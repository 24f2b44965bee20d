"""A small token file with every field, for tests of its reader and of what shows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fctncalling.data.token_file import FLOAT_FIELDS, SCHEMA_VERSION, TOKEN_FIELDS, TokenFile


def sample_header(update: int = 12, **changes: Any) -> dict[str, Any]:
    """Return the header of two learned episodes of one group and one invalid one."""
    name = f"train_{update:06d}"
    common = {"category": "multi_turn_base", "terminated": True, "truncated": False}
    episodes = [
        {"task_id": "multi_turn_base_1", "success": True, "return": 1.0, "group": 0}
        | {"invalid": False, "learned_from": True, "reason": None},
        {"task_id": "multi_turn_base_1", "success": False, "return": 0.0, "group": 0}
        | {"invalid": False, "learned_from": True, "reason": None},
        {"task_id": "multi_turn_base_2", "success": False, "return": 0.0, "group": 1}
        | {"invalid": True, "learned_from": False, "reason": "invalid: the tool server died"},
    ]
    header = {
        "schema_version": SCHEMA_VERSION,
        "algorithm_name": "TPPO",
        "update": update,
        "episodes_file": f"episodes/{name}.jsonl",
        "gamma": 0.95,
        "lam": 0.9,
        "lam_value": None,
        "gamma_token": 1.0,
        "lam_token": 1.0,
        "clip_low": 0.2,
        "clip_high": 0.28,
        "dual_clip": None,
        "group_size": 2,
        "group_std": True,
        "group_credit": "episode",
        "whitening_mean": 0.25,
        "whitening_std": 0.5,
        "has_signal": True,
        "episodes": [
            {"episode_id": f"{name}:{line}", "line": line, **common, **episode}
            for line, episode in enumerate(episodes, 1)
        ],
        "pieces": {str(token): f" piece{token}" for token in range(10)},
        "fields": [*TOKEN_FIELDS, "row_offsets", "row_episode", "bootstrap"],
    }
    return header | changes


def sample_token_file(update: int = 12, **changes: Any) -> TokenFile:
    """Return the contents of a token file: rows of 6, 4 and 3 tokens, the last one's unlearned.

    The first episode has two actions of two tokens and one token; no reference model.
    """
    acted = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0], dtype=bool)
    ends = np.array([0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0], dtype=bool)
    learned = acted & (np.arange(len(acted)) < 10)
    numbers = np.random.default_rng(0).normal(size=(len(FLOAT_FIELDS), len(acted)))
    floats = {
        name: np.where(learned, row, np.nan).astype(np.float32)
        for name, row in zip(FLOAT_FIELDS, numbers, strict=True)
    }
    floats |= {name: np.full_like(floats[name], np.nan) for name in ("ref_logprobs", "kl")}
    contents: dict[str, Any] = {
        "header": sample_header(update),
        "ids": np.arange(len(acted), dtype=np.int32) % 10,
        "acted": acted,
        "ends_action": ends,
        "in_loss": learned,
        "clipped": np.where(learned, np.arange(len(acted)) % 3 - 1, 0).astype(np.int8),
        **floats,
        "space_before": np.arange(len(acted)) == 4,
        "row_offsets": np.array([0, 6, 10, 13], dtype=np.int64),
        "row_episode": np.array([0, 1, 2], dtype=np.int32),
        "bootstrap": np.array([0.0, 0.3, np.nan], dtype=np.float32),
    }
    return TokenFile(**contents | changes)
