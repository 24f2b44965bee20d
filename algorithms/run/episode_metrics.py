"""Metrics of a batch of episodes: success, errors, lengths."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.data.types import Episode

CLARIFY = "clarify"  # what the categories of questioning tasks begin with
PARSE_ERRORS = frozenset({"malformed", "unknown_function", "bad_arguments"})


def episode_metrics(records: Sequence[EpisodeRecord]) -> dict[str, float | None]:
    """Return the metrics of a batch of episodes.

    Means over valid episodes, error rates per step.
    """
    valid = [record for record in records if not record.invalid]
    num_invalid = len(records) - len(valid)
    metrics: dict[str, float | None] = {
        "env/episodes": len(records),
        "env/invalid": num_invalid,
        "env/invalid_rate": num_invalid / len(records) if records else None,
    }
    if not valid:
        return metrics
    steps = max(1, sum(record.num_steps for record in valid))
    errors = [error for record in valid for error in record.errors]
    metrics |= {
        "charts/episodic_return": fmean(record.episode_return for record in valid),
        "charts/episodic_length": fmean(record.num_steps for record in valid),
        "env/turns_mean": fmean(_num_turns(record) for record in valid),
        "env/parse_error_rate": sum(error in PARSE_ERRORS for error in errors) / steps,
        "env/tool_error_rate": sum(error == "tool_error" for error in errors) / steps,
        "env/truncated_rate": fmean(record.truncated for record in valid),
        **_token_metrics(valid, steps),
    }
    metrics |= question_rates_by_category(valid, "env/asked")
    return metrics | success_metrics(valid, "env/success_rate", "env/success_rate_strict")


def success_metrics(
    records: Sequence[EpisodeRecord], name: str, strict_name: str
) -> dict[str, float | None]:
    """Return success metrics: rates, official and strict, overall and by category.

    Strict rates are left out where no environment gave a strict verdict.
    """
    metrics: dict[str, float | None] = {}
    for key, rate in ((name, success_rate), (strict_name, strict_success_rate)):
        if rate is strict_success_rate and rate(records) is None:
            continue
        metrics[key] = rate(records)
        for category in sorted({record.category for record in records if not record.invalid}):
            metrics[f"{key}/{category}"] = rate([r for r in records if r.category == category])
    return metrics


def success_rate(records: Sequence[EpisodeRecord]) -> float | None:
    """Return the success rate by the official verdict, of valid episodes; None without any."""
    valid = [record.success for record in records if not record.invalid]
    return fmean(valid) if valid else None


def strict_success_rate(records: Sequence[EpisodeRecord]) -> float | None:
    """Return the success rate by the strict verdict, of valid episodes.

    None without any such verdict.

    An episode that was cut before its end has no verdict of either kind, and is not solved.
    """
    valid = [record for record in records if not record.invalid]
    if all(record.strict_success is None for record in valid):
        return None
    return fmean(bool(record.strict_success) for record in valid)


def mean_return_without_verdict(records: Sequence[EpisodeRecord]) -> float | None:
    """Return the mean return without verdict: of valid episodes of such environments.

    Their success is a return above 0 and says little; None for others.
    """
    valid = [record.episode_return for record in records if not record.invalid]
    return fmean(valid) if valid and strict_success_rate(records) is None else None


def question_rates_by_category(
    records: Sequence[EpisodeRecord], name: str
) -> dict[str, float | None]:
    """Return question metrics: rates by category of questioning tasks.

    {} where there is none.
    """
    categories = sorted({each.category for each in records if each.category.startswith(CLARIFY)})
    return {
        f"{name}/{category}": question_rate([r for r in records if r.category == category])
        for category in categories
    }


def question_rate(records: Sequence[EpisodeRecord]) -> float | None:
    """Return the rate of valid episodes with a question to the user; None without any."""
    valid = ["no_call" in record.errors for record in records if not record.invalid]
    return fmean(valid) if valid else None


def _token_metrics(valid: Sequence[EpisodeRecord], steps: int) -> dict[str, float | None]:
    acted = sum(row.num_acted for record in valid for row in record.rows)
    total = sum(len(row.ids) for record in valid for row in record.rows)
    prompts = [
        row.acted.index(True) for record in valid for row in record.rows[:1] if row.num_acted
    ]
    return {
        "tokens/prompt_length_mean": fmean(prompts) if prompts else None,
        "tokens/episode_length_mean": total / len(valid),
        "tokens/action_length_mean": acted / steps,
        "tokens/action_truncated_rate": sum(record.num_actions_truncated for record in valid)
        / steps,
    }


def _num_turns(record: EpisodeRecord) -> int:
    steps = record.episode.steps if isinstance(record.episode, Episode) else ()
    return max((step.turn + 1 for step in steps), default=0)
