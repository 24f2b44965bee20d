"""Planted runs: a token file and its episode log alone give away each of five planted bugs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from planted_runs import BUGS, END, planted_run

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.data.token_file import TokenFile, read_token_file, token_file_path


def actions(file: TokenFile, row: slice) -> list[NDArray[np.int64]]:
    """Return the acted tokens of each action of a row, as indices of the file's arrays."""
    places = np.arange(row.start, row.stop)[file.acted[row]]
    ends = np.flatnonzero(file.ends_action[places]) + 1
    return [part for part in np.split(places, ends) if len(part)]


def signs(file: TokenFile, lines: list[dict[str, Any]]) -> set[str]:
    """Return the bugs that can be seen in the files."""
    found, texts = set[str](), file.texts
    for number, line in enumerate(lines):
        (row,) = file.rows(number)
        written = [("".join(texts[at] for at in part), part) for part in actions(file, row)]
        for (text, part), step in zip(written, line["steps"], strict=True):
            whole = step["text"] + (END if step["error"] is None else "")
            if text != whole:
                found.add("tool_text_in_loss" if whole in text else "mask_off_by_one")
            if not text.endswith(END) and text == whole and file.in_loss[part].any():
                found.add("truncated_as_whole")
            if "tool_text_in_loss" not in found and file.rewards[part].sum() != step["reward"]:
                found.add("reward_on_wrong_turn")
        if not np.allclose(
            file.raw_advantages[row], advantages(file, row), atol=1e-5, equal_nan=True
        ):
            found.add("wrong_gamma")
    return found


def advantages(file: TokenFile, row: slice) -> NDArray[np.float32]:
    """Return a row's advantages by the settings of the header."""
    names = ("rewards", "values", "acted", "ends_action")
    rewards, values, acted, ends = (torch.tensor(getattr(file, name)[row])[None] for name in names)
    settings = {name: file.header[name] for name in ("gamma", "lam", "gamma_token", "lam_token")}
    bootstrap = torch.zeros(1)
    found, _ = decomposed_gae(rewards, values, acted, ends, bootstrap, **settings)
    return np.where(file.acted[row], found[0].numpy(), np.float32(np.nan))


@pytest.mark.parametrize("bug", [None, *BUGS])
def test_the_files_of_a_planted_run_show_its_bug_and_no_other(
    bug: str | None, tmp_path: Path
) -> None:
    folder = planted_run(tmp_path / "run", bug)
    file = read_token_file(token_file_path(folder, 1))
    text = (folder / file.header["episodes_file"]).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert signs(file, lines) == ({bug} if bug else set())
    assert file.header["has_signal"]
    assert (folder / "metrics.jsonl").stat().st_size > 0
