"""Place of an episode along its task's truth: the turn, the calls to come, on the path or not."""

from __future__ import annotations

from collections import Counter

from fctncalling.envs.episode.state import EpisodeState
from fctncalling.envs.judging.ground_truth import TruthPath

Place = tuple[int, int, bool]
"""Turn, calls of the truth still to come, whether the episode is on the truth's path."""


def place_on_path(state: EpisodeState, path: TruthPath) -> Place | None:
    """Return an episode's place along the replayed truth; None behind the truth's last turn.

    It is on the path where the tools' state is one that the truth passes in this turn, with the
    results of its calls up to there seen, after turns that each ended as the checker demands; under
    a strict reward nothing was forgiven either. Other calls beside the truth's do no harm while the
    state stays equal, and a mistake that is mended leads back.
    """
    if state.turn >= len(path.turns):
        return None
    so_far, on_path = Counter[str](), not state.forgiven
    for had, end, wanted, hashes in zip(
        state.turns, state.end_hashes, path.turns, path.hashes, strict=False
    ):
        so_far.update(had.results)
        if wanted.results:  # else the turn passes always
            ends_alike = bool(had.results) and end == hashes[-1]
            on_path = on_path and ends_alike and Counter(wanted.results) <= so_far
    so_far.update(state.results)
    wanted_now = path.turns[state.turn].results
    on_path = on_path and any(
        passed == state.hash_of_tools() and Counter(wanted_now[:calls]) <= so_far
        for calls, passed in enumerate(path.hashes[state.turn])
    )
    missing = Counter(wanted_now) - Counter(state.results)
    later = sum(len(turn.results) for turn in path.turns[state.turn + 1 :])
    return state.turn, missing.total() + later, on_path
