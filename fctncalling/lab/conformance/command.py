"""Check how far a scorer agrees with BFCL's verdicts, on answers made from the official tasks.

The answers are right, sloppy, wrong and oddly written, made by a seed from the tasks that
import-bfcl gets; the report has a line for each kind and the first answer on which the scorer is
wrong. --scorer is a command that reads JSON lines (id, category, task, answer) and writes lines
with id and valid; or `module:function`; or self, ours. --parser is one that reads lines with id,
text and tools, where a model's chat template wrote the right calls, and writes lines with id and
calls. --handler and --dots write the answers in another form. Exit code 0 where it agrees with all,
1 where it does not, 2 where it cannot be asked.

example:
  fctncalling conformance --scorer "python my_scorer.py" --json report.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fctncalling import __version__
from fctncalling.cli.score.readings import SPELLINGS, ReadingFlags
from fctncalling.cli.shared.jsonl_records import InputError, with_progress_bar
from fctncalling.cli.shared.output import align_rows
from fctncalling.cli.shared.parser import add_flag, add_switch, print_error
from fctncalling.cli.shared.tool_flags import MISSING
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.errors import TaskError
from fctncalling.data.paths import atomic_write, official_data_folder
from fctncalling.lab.conformance.agreement import Agreement, ExpectedVerdict
from fctncalling.lab.conformance.made_answers import (
    ANSWERS_A_TASK,
    CATEGORIES,
    AnswerWriter,
    OwnScorer,
    chosen_categories,
    compare_category,
    load_recorded_verdicts,
    made_answers_of_category,
    scorer_record,
)
from fctncalling.lab.conformance.parser_agreement import parser_agreement
from fctncalling.lab.conformance.scorer_process import SCORER, ScorerTimeLimits, scorer_replies
from fctncalling.lab.import_bfcl import manifest
from fctncalling.lab.page.report_page import Bar, Cell, ReportTable, report_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    what = parser.add_mutually_exclusive_group(required=True)
    judging = "command, module:function, or self: who judges the answers"
    reading = "command, module:function, or self: who reads the calls that a template wrote"
    comparing = "compare our verdicts with those recorded from the official package"
    add_flag(what, "--scorer", str, "CMD", judging)
    add_flag(what, "--parser", str, "CMD", reading)
    add_switch(what, "--recorded", comparing)
    add = partial(add_flag, parser)
    categories = f"categories of tasks; default: all of {', '.join(CATEGORIES)}"
    add("--category", str, "NAME", categories, [], nargs="+")
    parser.add_argument(
        "--data_dir",
        "--dataset_path",
        type=Path,
        metavar="FOLDER",
        help=f"folder of official tasks; default: {official_data_folder()}",
    )
    writing = "whose chat template writes for --parser; default: the embedded model"
    idle = "seconds in which a scorer may read and write nothing; default: %(default)s"
    add("--model_name_or_path", str, "MODEL", writing, str(embedded_path("model")))
    add("--chat_template", Path, "FILE", "in place of its own")
    add("--seed", int, "N", "of the answers", 0)
    add("--answers", int, "N", "answers made to each task; default: %(default)s", ANSWERS_A_TASK)
    add("--idle_limit", float, "S", idle, ScorerTimeLimits.idle_s)
    total = ScorerTimeLimits.total_s
    add("--time_limit", float, "S", "seconds for all answers; default: %(default)s", total)
    add("--json", Path, "FILE", "write the report there, too")
    add("--page", Path, "FILE", "write it as an HTML page, too")
    spelled = "of functions' names in the answers; default: keep"
    add("--handler", str, "NAME", "of ours in whose form the answers are written; default: BFCL's")
    parser.add_argument("--dots", choices=SPELLINGS, default="auto", help=spelled)


def run(args: argparse.Namespace) -> int:
    """Ask the scorer; return 0, 1 if it disagrees, 2 if it cannot be asked."""
    folder = args.data_dir or official_data_folder()
    try:
        if args.answers < 1:
            raise InputError(f"--answers: got {args.answers}, expected at least 1")
        categories = chosen_categories(folder, args.category, _note)
        if args.recorded:
            return _compare_recorded(args, folder, categories)
        agreement = (_parsed if args.parser else _agreement)(args, folder, categories)
        report = _report(args, categories, agreement)
        strata = agreement.sorted_strata()
        rows: list[list[Cell]] = [
            [name, str(each.count), Bar(each.agreement, each.percent)] for name, each in strata
        ]
        table = ReportTable("Agreement", ["stratum", "answers", "agreement"], rows)
        wrong = [[name, each.counterexample] for name, each in strata if each.counterexample]
        deliver(args, report, report["badge"], table, wrong)
        agreed, count = agreement.of()
        return int(agreed < count)
    except (InputError, TaskError, OSError, ValueError, LookupError, *MISSING) as error:
        return print_error(error)


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _agreement(args: argparse.Namespace, folder: Path, categories: Sequence[str]) -> Agreement:
    """Return how far the scorer agrees on the answers to all categories."""
    agreement, limits = Agreement(), ScorerTimeLimits(args.idle_limit, args.time_limit)
    awaited: dict[str, ExpectedVerdict] = {}
    writer = AnswerWriter(ReadingFlags.of(args))
    records = _records(args, folder, categories, awaited, writer)
    own = OwnScorer(writer.reading)
    replies = scorer_replies(args.scorer, limits, SCORER, records, own.valid)
    for reply in with_progress_bar(replies, "judging", "answer"):
        agreement.add(awaited.pop(reply.answer_id), reply.told, reply.why)
    if writer.left_out:
        _note(f"{writer.left_out} answers are left out: --handler cannot write what they hold")
    return agreement


def _parsed(args: argparse.Namespace, folder: Path, categories: list[str]) -> Agreement:
    """Return how far the parser agrees; keep only the categories with JSON calls."""
    from fctncalling.lab.conformance.parser_agreement import WRITTEN, load_chat_template

    categories[:] = [name for name in categories if name in WRITTEN]
    if not categories:
        raise InputError(f"--category: --parser expects some of {', '.join(WRITTEN)}")
    limits = ScorerTimeLimits(args.idle_limit, args.time_limit)
    render = load_chat_template(args.model_name_or_path, args.chat_template)
    return parser_agreement(args.parser, limits, folder, categories, render)


def _records(
    args: argparse.Namespace,
    folder: Path,
    categories: Sequence[str],
    awaited: dict[str, ExpectedVerdict],
    writer: AnswerWriter,
) -> Iterator[dict[str, Any]]:
    """Yield a line for each answer and keep its expected verdict by a neutral id."""
    number = 0
    for category in categories:
        for answer in made_answers_of_category(folder, category, args.seed, args.answers):
            text = writer.written(answer.task, answer.response)
            if text is None:
                continue
            number += 1
            awaited[str(number)] = answer.expected_verdict()
            record = scorer_record(answer, str(number))
            record["answer"]["text"] = text
            yield record


def _report(
    args: argparse.Namespace, categories: Sequence[str], agreement: Agreement
) -> dict[str, Any]:
    agreed, count = agreement.of()
    is_written = args.handler is not None or args.dots != "auto"
    if args.parser:
        title = "Parser conformance"
        oracle = f"template of {args.chat_template or Path(args.model_name_or_path).name}"
    else:
        title = "BFCL conformance"
        oracle = f"verdicts of {manifest()['package']} {manifest()['version']}"
    return {
        **({"parser": args.parser} if args.parser else {"scorer": args.scorer}),
        "version": __version__,
        "oracle": oracle,
        "categories": list(categories),
        "seed": args.seed,
        **({"handler": args.handler, "dots": args.dots} if is_written else {}),
        "agreement": agreed / count if count else 0.0,
        "count": count,
        "badge": agreement.badge(__version__, oracle, title),
        "strata": agreement.report(),
    }


def _compare_recorded(args: argparse.Namespace, folder: Path, categories: Sequence[str]) -> int:
    """Compare our verdicts with the recorded ones; return 0, or 1 if some differ."""
    recorded = load_recorded_verdicts()
    results = [
        compare_category(folder, category, recorded)
        for category in with_progress_bar(categories, "comparing", "category", len(categories))
    ]
    total = sum(each.compared for each in results)
    different = [words for each in results for words in each.different]
    rows = [[each.category, str(each.compared), str(len(each.different))] for each in results]
    table = ReportTable("Verdicts", ["category", "verdicts", "different"], rows)
    oracle = f"{recorded['package']} {recorded['version']}"
    sentence = f"{total} verdicts of {oracle} compared, {len(different)} differ"
    report = {"compared": total, "different": different}
    deliver(args, report, sentence, table, [[words] for words in different[:20]])
    return int(bool(different))


def deliver(
    args: argparse.Namespace,
    report: dict[str, Any],
    sentence: str,
    table: ReportTable,
    wrong: Sequence[Sequence[str]],
) -> None:
    """Print the report, and write it as JSON and as a page."""
    if args.json is not None:
        _write(args.json, json.dumps(report, indent=2) + "\n")
    if args.page is not None:
        differing = ReportTable(
            "First answers that differ", [""] * len(wrong[:1] and wrong[0]), wrong
        )
        kind = "bad" if wrong else "good"
        title = f"Conformance of {args.scorer or args.parser or 'the recorded verdicts'}"
        _write(args.page, report_page(title, sentence, [table, differing], kind=kind))
    cells = [
        [cell.text if isinstance(cell, Bar) else str(cell) for cell in row] for row in table.rows
    ]
    print(align_rows([list(table.heads), *cells]))
    for row in wrong:
        print(f"\n{': '.join(row)}")
    print(f"\n{sentence}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        partial.write_text(text, "utf-8")
