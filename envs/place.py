"""Place of an episode along its task's truth: turn, calls to come, whether on the path."""

from __future__ import annotations

from collections import Counter

from fctncalling.envs.episode.state import EpisodeState
from fctncalling.envs.judging.ground_truth import TruthPath

Place = tuple[int, int, bool]
"""Turn, calls of the truth still to come, whether the episode is on the truth's path."""


def place_on_path(state: EpisodeState, path: TruthPath) -> Place | None:
    """Return an episode's place along the replayed truth; None after the truth's last turn.

    It is on the path where the tools' state is one that the truth passes in this turn, with the
    results of its calls up to there seen, after turns that each ended as the checker demands; under
    a strict reward nothing was forgiven either. Other calls beside the truth's do no harm while the
    state stays equal, and a mistake that is mended leads back.
    """
    if state.turn >= len(path.turns):
        return None
    so_far, on_path = Counter[str](), not state.forgiven
    for turn, end_hash, true_turn, true_hashes in zip(
        state.turns, state.end_hashes, path.turns, path.hashes, strict=False
    ):
        so_far.update(turn.results)
        if true_turn.results:  # else the turn passes always
            has_end_state = bool(turn.results) and end_hash == true_hashes[-1]
            on_path = on_path and has_end_state and Counter(true_turn.results) <= so_far
    so_far.update(state.results)
    true_results = path.turns[state.turn].results
    on_path = on_path and any(
        true_hash == state.hash_of_tools() and Counter(true_results[:num_calls]) <= so_far
        for num_calls, true_hash in enumerate(path.hashes[state.turn])
    )
    missing = Counter(true_results) - Counter(state.results)
    later = sum(len(turn.results) for turn in path.turns[state.turn + 1 :])
    return state.turn, missing.total() + later, on_path
