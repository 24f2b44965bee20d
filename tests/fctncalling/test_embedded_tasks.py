"""Claims about the embedded tasks: what they hold, that the held-out ones are new, and that they
can be solved.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.lab.embedded.demonstrator import Demonstrator
from fctncalling.lab.embedded.make_tasks import EMBEDDED, SPLITS, task_entries, write_splits
from fctncalling.lab.embedded.vocabulary import wording

Splits = dict[str, list[Task]]


@pytest.fixture(scope="module")
def splits() -> Splits:
    """Return the committed tasks of both splits."""
    return {split: load_tasks(embedded_path(split)) for split in ("train", "held_out")}


def texts(task: Task) -> tuple[str, ...]:
    """Return what the user says in a task, turn by turn."""
    return tuple(message["content"] for turn in task.question for message in turn)


def calls(task: Task) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield the ground truth's calls as (name, sorted arguments)."""
    for part in task.ground_truth or ():
        if isinstance(part, dict):
            for name, arguments in part.items():
                yield (
                    name,
                    tuple(sorted((key, repr(accepted[0])) for key, accepted in arguments.items())),
                )
            continue
        for text in part:
            call = ast.parse(text, mode="eval").body
            assert isinstance(call, ast.Call)
            yield (
                ast.unparse(call.func),
                tuple(sorted((str(k.arg), ast.unparse(k.value)) for k in call.keywords)),
            )


def test_the_committed_tasks_are_what_the_command_makes(tmp_path: Path) -> None:
    argv = ["--output_dir", str(tmp_path)]
    write_splits(SPLITS, task_entries, answers_apart=True, argv=argv)
    for split in SPLITS:
        for name in (f"{split}.json", f"possible_answer/{split}.json"):
            assert (tmp_path / name).read_bytes() == (EMBEDDED / name).read_bytes(), name


def test_there_are_enough_tasks_of_every_kind(splits: Splits) -> None:
    assert len(splits["train"]) >= 6000
    assert len(splits["held_out"]) >= 300
    kinds = {"simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance"}
    kinds |= {"multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param"}
    for tasks in splits.values():
        assert set(Counter(task.category for task in tasks)) == kinds
        assert sum(task.is_multi_turn for task in tasks) >= 0.4 * len(tasks)


def test_at_most_twelve_functions_are_offered(splits: Splits) -> None:
    assert max(len(task.functions) for tasks in splits.values() for task in tasks) <= 12


def test_no_call_names_a_ticket_that_is_made_in_the_same_turn(splits: Splits) -> None:
    """Both calls are written at once: the number of the new ticket is nowhere to be read."""
    makers = 0
    for task in (
        task for tasks in splits.values() for task in tasks if "TicketAPI" in task.initial_config
    ):
        number = str(task.initial_config["TicketAPI"]["ticket_counter"])
        for turn in task.ground_truth or ():
            if any(call.startswith("create_ticket(") for call in turn):
                makers += 1
                assert not any(f"ticket_id={number}" in call for call in turn), (task.id, turn)
    assert makers > 100


def test_no_held_out_text_or_argument_combination_occurs_in_training(splits: Splits) -> None:
    seen_texts = {texts(task) for task in splits["train"]}
    assert not [task.id for task in splits["held_out"] if texts(task) in seen_texts]
    seen_calls = {call for task in splits["train"] for call in calls(task)}
    for task in splits["held_out"]:
        combinations = [call for call in calls(task) if len(call[1]) > 1]
        assert not seen_calls.intersection(combinations), task.id
        assert combinations or task.category == "irrelevance", (
            f"{task.id} has nothing new but its text"
        )


def test_every_held_out_word_occurs_in_training(splits: Splits) -> None:
    words = {
        split: {
            word
            for task in tasks
            for text in (*texts(task), str(task.ground_truth))
            for word in re.findall(r"\w+", text)
        }
        for split, tasks in splits.items()
    }
    assert words["held_out"] <= words["train"]


def test_a_third_of_the_multi_turn_tasks_need_an_earlier_turn(splits: Splits) -> None:
    """Oracle: an argument of some turn's calls stands neither in its message nor among the words
    every task knows.
    """
    for tasks in splits.values():
        multi_turn = [task for task in tasks if task.is_multi_turn]
        leaning = sum(map(leans_on_history, multi_turn))
        assert leaning >= len(multi_turn) / 3


def leans_on_history(task: Task) -> bool:
    """Return whether some call has an argument that its own turn's message does not name."""
    for turn, truth in zip(task.question, task.ground_truth or (), strict=True):
        said = " ".join(message["content"] for message in turn).replace(" ", "_")
        for text in truth:
            call = ast.parse(text, mode="eval").body
            assert isinstance(call, ast.Call)
            named = [
                k
                for k in call.keywords
                if k.arg in ("source", "file_name", "ticket_id", "title", "folder")
            ]
            if any(str(ast.literal_eval(k.value)) not in said for k in named):
                return True
    return False


@pytest.mark.prove
def test_every_ground_truth_replays_to_a_valid_verdict(splits: Splits) -> None:
    for tasks in splits.values():
        env = FunctionCallingEnv(tasks=tasks)
        oracle = Demonstrator(tasks, seed=0, biased=False)
        assert [task.id for task in tasks if not play(env, task, oracle)] == []


def test_the_biased_demonstrator_is_wrong_often_and_right_often(splits: Splits) -> None:
    tasks = splits["held_out"]
    env = FunctionCallingEnv(tasks=tasks)
    demonstrator = Demonstrator(tasks, seed=0)
    right = sum(play(env, task, demonstrator) for task in tasks) / len(tasks)
    assert 0.3 < right < 0.7


def play(env: FunctionCallingEnv, task: Task, demonstrator: Demonstrator) -> bool:
    """Return whether a demonstrator's episode of the task is valid."""
    _, info = env.reset(options={"task_id": task.id})
    step_in_turn, ended = 0, False
    while not ended:
        turn = info["turn"]
        _, _, terminated, truncated, info = env.step(
            demonstrator(task.id, turn, step_in_turn, info)
        )
        ended = terminated or truncated
        step_in_turn = step_in_turn + 1 if info["turn"] == turn else 0
    return bool(info["verdict"].valid)


def test_the_task_files_are_bfcl_json_lines() -> None:
    first = json.loads(embedded_path("train").read_text().splitlines()[0])
    assert set(first) == {"id", "question", "function"}
    assert first["question"][0][0]["role"] == "user"


def test_the_committed_model_is_the_one_its_hashes_name() -> None:
    folder = embedded_path("model")
    recorded = json.loads((folder / "SHA256.json").read_text())["sha256"]
    files = {path.name: path for path in folder.iterdir() if path.name != "SHA256.json"}
    assert {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()
    } == recorded
    assert sum(path.stat().st_size for path in files.values()) <= 2_000_000


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Return the embedded tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(embedded_path("model"))


@given(st.text() | st.text("ab_#9 \n'\"é日<|end>", max_size=30))
def test_the_tokenizer_is_lossless(tokenizer: Any, text: str) -> None:
    text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_a_word_is_the_same_tokens_in_prose_in_code_and_in_results(tokenizer: Any) -> None:
    words = {str(word) for kind in wording()["words"].values() for word in kind}
    for word in words:
        alone = tokenizer.encode(word, add_special_tokens=False)
        for text in (f"go to {word} now", f"f(a='{word}')", f'{{"k": ["{word}"]}}'):
            ids = tokenizer.encode(text, add_special_tokens=False)
            starts = range(len(ids) - len(alone) + 1)
            assert any(ids[start : start + len(alone)] == alone for start in starts), text


def flips(tasks: list[Task]) -> list[str]:
    """Return the tasks whose perfect episode, after a bad one in the same environment, is not
    valid.
    """
    env = FunctionCallingEnv(tasks=tasks)
    oracle, careless = Demonstrator(tasks, seed=0, biased=False), Demonstrator(tasks, seed=1)
    flipped = []
    for task in tasks:
        spoil(env, task, careless)
        if not play(env, task, oracle):
            flipped.append(task.id)
    return flipped


def spoil(env: FunctionCallingEnv, task: Task, demonstrator: Demonstrator) -> None:
    """Play the first two turns' calls twice, mistakes included, and leave the episode there."""
    _, info = env.reset(options={"task_id": task.id})
    for _ in range(2):
        for _ in range(2):
            *_, terminated, truncated, info = env.step(demonstrator(task.id, info["turn"], 0, info))
            if terminated or truncated:
                return
        *_, terminated, truncated, info = env.step("done")
        if terminated or truncated:
            return


@pytest.mark.prove
@pytest.mark.parametrize("split", ["held_out", "train"])
def test_a_perfect_episode_after_a_bad_one_is_valid_alone_and_in_eight_threads(
    splits: Splits, split: str
) -> None:
    tasks = [task for task in splits[split] if task.is_multi_turn]
    assert flips(tasks) == []
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(flips, [tasks] * 8)) == [[]] * 8


def test_the_oracle_is_strictly_right(splits: Splits) -> None:
    tasks = splits["held_out"]
    env = FunctionCallingEnv(tasks=tasks, reward="strict")
    oracle = Demonstrator(tasks, seed=0, biased=False)
    for task in tasks[::2]:
        assert play(env, task, oracle)
        assert sum(step.reward for step in env.episode.steps) == 1.0, task.id


def test_the_model_tells_functions_that_are_offered_from_one_that_is_withheld(
    splits: Splits, tokenizer: Any
) -> None:
    """After a function's name, brackets close at once where it is withheld, and arguments come
    where it is offered.
    """
    import torch
    from transformers import LlamaForCausalLM

    from fctncalling.algorithms.policy.chat_template import ChatTemplate
    from fctncalling.lab.embedded.demonstrator import demonstrations

    tasks = [t for t in splits["held_out"] if t.category == "multi_turn_miss_func"][:24]
    model = LlamaForCausalLM.from_pretrained(embedded_path("model"))
    oracle = Demonstrator(tasks, seed=0, biased=False)
    closes = tokenizer.encode("[ls]", add_special_tokens=False)[-1]
    chances: dict[bool, list[float]] = {True: [], False: []}
    for record in demonstrations(tasks, oracle, ChatTemplate(tokenizer)):
        (row,) = record.rows
        with torch.no_grad():
            likely = model(torch.tensor([row.ids])).logits[0].softmax(-1)
        starts = [i for i in range(len(row.ids)) if row.acted[i] and not row.acted[i - 1]]
        for start, step in zip(starts, record.episode.steps, strict=True):  # type: ignore[attr-defined]
            if step.text.startswith("["):
                chances["no function" in step.text].append(likely[start + 1, closes].item())
    means = {withheld: sum(values) / len(values) for withheld, values in chances.items()}
    assert means[True] > 0.6
    assert means[False] < 0.2
