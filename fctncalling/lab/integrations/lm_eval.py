"""lm-evaluation-harness (tested with 0.4.13): tasks of one turn, judged as BFCL does.

A Python file of yours has `Bfcl = harness_task(load_tasks(...))`; a YAML file beside it names it:
`task: bfcl` and `class: !function my_file.Bfcl` (examples/integrations/lmeval_tasks.yaml).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import Task as HarnessTask

from fctncalling.data.types import Task
from fctncalling.envs.judging.judge import judge
from fctncalling.lab.dialogue import opening

ANSWER_FORM = "prompting"  # the harness passes texts: schemas in the prompt, calls in the answer


class JudgedTask(HarnessTask):
    """Base class of the harness's tasks over a subclass's tasks, zero-shot."""

    VERSION = 1
    tasks: ClassVar[Mapping[str, Task]]
    max_gen_toks: ClassVar[int]

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config={k: value for k, value in (config or {}).items() if k != "class"})

    def download(self, *_: Any, **__: Any) -> None:
        """Return: the tasks are given."""

    def has_training_docs(self) -> bool:
        """Whether there are documents for training: never."""
        return False

    has_validation_docs = has_training_docs

    def has_test_docs(self) -> bool:
        """Whether there are documents for testing: always."""
        return True

    def test_docs(self) -> list[dict[str, Any]]:
        """Return id and opening messages of each task."""
        opened = ((task.id, opening(task, ANSWER_FORM)) for task in self.tasks.values())
        return [{"id": name, "messages": start.messages} for name, start in opened]

    def doc_to_text(self, doc: dict[str, Any]) -> str:
        """Return the messages as one text, for models without a chat template."""
        return "\n\n".join(message["content"] for message in doc["messages"]) + "\n\n"

    def doc_to_target(self, doc: dict[str, Any]) -> str:
        """Return "": an answer may be right in many ways."""
        return ""

    def fewshot_context(
        self,
        doc: dict[str, Any],
        num_fewshot: int,
        apply_chat_template: bool = False,
        chat_template: Callable[[list[Any]], str] | None = None,
        **_: Any,
    ) -> str:
        """Return the prompt, with the model's chat template if the harness applies it."""
        if apply_chat_template and chat_template is not None:
            return chat_template(doc["messages"])
        return self.doc_to_text(doc)

    def construct_requests(
        self, doc: dict[str, Any], ctx: str, metadata: Any = None, **_: Any
    ) -> Instance:
        """Make the request for one greedy generation."""
        settings = {"until": [], "do_sample": False, "max_gen_toks": self.max_gen_toks}
        return Instance("generate_until", doc, (ctx, settings), 0, metadata)

    def process_results(self, doc: dict[str, Any], results: list[str]) -> dict[str, float]:
        """Return 1 for a valid verdict, else 0."""
        return {"valid": float(judge(self.tasks[doc["id"]], results[0], ANSWER_FORM).valid)}

    def aggregation(self) -> dict[str, Callable[[list[float]], float]]:
        """Return the mean, as the share of valid answers."""
        return {"valid": mean}

    def higher_is_better(self) -> dict[str, bool]:
        """Whether a higher metric is better: always."""
        return {"valid": True}


def harness_task(tasks: Sequence[Task], *, max_gen_toks: int = 512) -> type[JudgedTask]:
    """Make the harness's task class with these tasks as documents.

    It generates greedily; its metric is the share of valid answers. Raises ValueError for tasks
    that take more than one message: the harness asks once.
    """
    for task in tasks:
        if task.executes_calls or len(task.question) > 1:
            raise ValueError(
                f'task "{task.id}" takes several messages, and lm-eval asks for one: play it with '
                "`fctncalling run`, or with `play`."
            )
    by_id = {task.id: task for task in tasks}
    return type("Bfcl", (JudgedTask,), {"tasks": by_id, "max_gen_toks": max_gen_toks})
