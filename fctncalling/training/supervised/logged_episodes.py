"""Successful episodes of a run's log as demonstrations, with the very tokens that were sampled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.training.announce import announce


def successful_episodes(
    source: Path, template: ChatTemplate, *, strict: bool
) -> list[EpisodeRecord]:
    """Return the distinct episodes that succeeded, of a run's folder, its episodes or one file.

    Of a folder only training episodes are taken (train_*.jsonl): those of evaluations are of
    held-out tasks. Raises SettingError, naming file and line, where there is none, and for another
    tokenizer's.
    """
    found, seen, num_lines = list[EpisodeRecord](), set[str](), 0
    for path in _files(source):
        for number, line in enumerate(_lines(path), 1):
            num_lines += 1
            if not (line.get("strict_success", line["success"]) if strict else line["success"]):
                continue
            where = f"--sft_episodes {path} line {number}"
            record = _record(line, template, where)
            key = json.dumps([[row.ids, row.acted] for row in record.rows])
            if key not in seen and record.num_actions_truncated == 0:
                found.append(record)
            seen.add(key)
    if not found:
        raise SettingError(f"--sft_episodes {source}: none of {num_lines} episodes succeeded")
    announce(
        f"{source}: {len(found)} distinct successful episodes of {num_lines} are demonstrations."
    )
    return found


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    folder = source / "episodes" if (source / "episodes").is_dir() else source
    files = sorted(folder.glob("train_*.jsonl"))
    if not files:
        raise SettingError(
            f"--sft_episodes {source}: there are no logged training episodes: expected a run's "
            "folder with episodes/train_*.jsonl (--log_episodes_interval 1 logs every update's), "
            "or one such file"
        )
    return files


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
                if not isinstance(line, dict) or "success" not in line:
                    raise ValueError("no success in it")
            except ValueError as error:
                raise SettingError(
                    f"--sft_episodes {path} line {number}: expected an episode of a run's log "
                    f"({error})"
                ) from None
            yield line


def _record(line: Mapping[str, Any], template: ChatTemplate, where: str) -> EpisodeRecord:
    try:
        rows = _rows(line["tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise SettingError(f"{where}: the episode has no token ids ({error!r})") from None
    prompt = line.get("prompt")
    if prompt is not None and rows and any(rows[0].acted):
        opening = rows[0].ids[: rows[0].acted.index(True)]
        if max(opening, default=0) >= len(template.tokenizer) or template.spell(opening) != prompt:
            raise SettingError(f"{where}: its token ids are another tokenizer's than this model's")
    return EpisodeRecord(
        task_id=str(line.get("task_id", "")),
        category=str(line.get("category", "")),
        rows=rows,
        terminated=True,
        success=True,
        num_actions_truncated=int(line.get("num_actions_truncated", 0)),
    )


def _rows(tokens: Any) -> list[TokenRecord]:
    """Return the rows of a line's `tokens`."""
    rows, before = list[TokenRecord](), list[int]()
    for row in tokens:
        ids = [*before[: row["shared"]], *row["ids"]]
        acted = [bool(at % 2) for at, length in enumerate(row["runs"]) for _ in range(length)]
        if len(ids) != len(acted):
            raise ValueError(f"{len(ids)} ids, {len(acted)} in runs")
        ends = [now and not then for now, then in zip(acted, [*acted[1:], False], strict=True)]
        zeros = [0.0] * len(ids)
        rows.append(TokenRecord(ids, acted, ends, zeros, list(zeros)))
        before = ids
    return rows
