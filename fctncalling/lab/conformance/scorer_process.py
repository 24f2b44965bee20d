"""Scorer as a process: JSON lines in, verdicts out, with limits on time, lines and memory."""

from __future__ import annotations

import errno
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from fctncalling.cli.shared.jsonl_records import InputError
from fctncalling.lab.conformance.function_scorer import FUNCTION
from fctncalling.lab.mcp_client.guard import CLEAN_UP_S, guarded

MAX_LINE = 1 << 20
"""Bytes of the longest line that is read; a verdict needs some forty."""

SELF = "self"
"""Name of our own scorer or parser."""
_READ = 1 << 16
_KEPT_ERRORS = 2000  # bytes of a scorer's standard error, the last
_GRACE_S = 2.0


@dataclass(frozen=True)
class ScorerTimeLimits:
    """Times that a scorer may take."""

    idle_s: float = 60.0  # without reading a line or writing one
    total_s: float = 900.0


class ScorerReply(NamedTuple):
    """Verdict of a scorer, or calls of a parser; None if it gave none."""

    answer_id: str
    told: Any
    why: str = ""


class LineProtocol(NamedTuple):
    """Protocol of a process: its flag, the field that counts in its lines, and valid values."""

    flag: str
    field: str
    expected: str
    fits: Callable[[Any], bool]


SCORER = LineProtocol("--scorer", "valid", "true or false", lambda told: isinstance(told, bool))
PARSER = LineProtocol(
    "--parser",
    "calls",
    '[{"name": "...", "arguments": {}}]',
    lambda told: isinstance(told, list) and all(isinstance(each, dict) for each in told),
)


def scorer_command(command: str, protocol: LineProtocol = SCORER) -> list[str]:
    """Return the words of a command; for `module:function` one that calls it.

    Raises InputError where there are none.
    """
    if FUNCTION.fullmatch(command):
        module = "fctncalling.lab.conformance.function_scorer"
        return [sys.executable, "-m", module, command, protocol.field]
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"{protocol.flag} {command}: expected a command: {error}") from None
    if not words:
        raise InputError(f"{protocol.flag}: expected a command, module:function or self")
    return words


def scorer_replies(
    scorer: str,
    limits: ScorerTimeLimits,
    protocol: LineProtocol,
    records: Iterator[dict[str, Any]],
    own: Callable[[dict[str, Any]], Any],
) -> Iterator[ScorerReply]:
    """Yield a scorer's or parser's replies to records; for "self" the results of `own`."""
    if scorer == SELF:
        for record in records:
            line = json.loads(json.dumps(record))  # what any other gets
            yield ScorerReply(record["id"], own(line))
        return
    with ScorerProcess(scorer, limits, protocol) as process:
        yield from process.judge_records(records)


class ScorerProcess:
    """Process that judges lines, or parses them; a context manager that ends it and its children.

    Whatever it does, nothing but its verdicts is kept: a line that is none, a long line, an end
    before the last verdict, silence and a wrong id each raise InputError.
    """

    def __init__(
        self, scorer: str, limits: ScorerTimeLimits, protocol: LineProtocol = SCORER
    ) -> None:
        self._protocol = protocol
        self._name = f"{protocol.flag} {' '.join(scorer.split()):.100}"
        self._limits = limits
        try:
            command = scorer_command(scorer, protocol)
            if shutil.which(command[0]) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
            self._process = subprocess.Popen(
                guarded(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # its children end with it
            )
        except (OSError, ValueError) as error:
            raise InputError(f"{self._name}: cannot be started: {error}") from None
        self._errors = bytearray()
        self._moved = time.monotonic()
        self._fault: Exception | None = None
        self._drain = threading.Thread(target=self._read_errors, daemon=True)
        self._drain.start()

    def __enter__(self) -> ScorerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()  # its guard takes daemons along
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLEAN_UP_S)
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join(_GRACE_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError, ValueError):
                assert pipe is not None
                pipe.close()

    def judge_records(self, records: Iterator[dict[str, Any]]) -> Iterator[ScorerReply]:
        """Yield a verdict for each record, in the scorer's order.

        Records are made as fast as the scorer reads them. Raises InputError for a scorer that does
        not answer each of them once, and what making a record raises.
        """
        asked: set[str] = set()
        finished = threading.Event()
        writer = threading.Thread(target=self._write, args=(records, asked, finished), daemon=True)
        writer.start()
        answered = 0
        for line in self._lines(lambda: finished.is_set() and not asked):
            given = self._given(line)
            if given.answer_id not in asked:
                raise InputError(
                    f"{self._name}: a verdict on {given.answer_id!r:.60}, which was not asked or "
                    "has one already"
                )
            asked.discard(given.answer_id)
            answered += 1
            yield given
        writer.join(_GRACE_S)
        if self._fault is not None:
            raise self._fault
        if asked or not finished.is_set():
            raise InputError(
                f"{self._name}: it ended after {answered} verdicts{self._last_words()}"
            )

    def _write(
        self, records: Iterator[dict[str, Any]], asked: set[str], finished: threading.Event
    ) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            for record in records:
                line = json.dumps(record, default=str).encode() + b"\n"
                asked.add(record["id"])
                pipe.write(line)
                self._moved = time.monotonic()
            pipe.close()
            finished.set()
        except (OSError, ValueError):  # it reads no more: what is missing is told at the end
            return
        except Exception as error:
            self._fault = error
            self._process.terminate()

    def _lines(self, is_done: Any) -> Iterator[bytes]:
        """Yield lines until all verdicts are there or the output ends."""
        pipe = self._process.stdout
        assert pipe is not None
        started, rest = time.monotonic(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while not is_done():
                self._require_time(started)
                if not selector.select(0.2):
                    continue
                read = os.read(pipe.fileno(), _READ)
                if not read:
                    break
                self._moved = time.monotonic()
                *lines, rest = (rest + read).split(b"\n")
                if max(map(len, (rest, *lines))) > MAX_LINE:
                    raise InputError(f"{self._name}: a line of more than {MAX_LINE} bytes")
                yield from (line for line in lines if line.strip())
        if rest.strip():
            yield rest

    def _require_time(self, started: float) -> None:
        now = time.monotonic()
        if now - started > self._limits.total_s:
            raise InputError(f"{self._name}: not ready after {self._limits.total_s:g} s")
        if now - self._moved > self._limits.idle_s:
            raise InputError(
                f"{self._name}: for {self._limits.idle_s:g} s it has read no line and written "
                f"none{self._last_words()}"
            )

    def _given(self, line: bytes) -> ScorerReply:
        field, expected = self._protocol.field, self._protocol.expected
        try:
            record = json.loads(line)
            answer_id, told = record["id"], record[field]
        except (ValueError, LookupError, TypeError, RecursionError):
            record, answer_id, told = {}, None, None
        if isinstance(answer_id, str) and not (told is None or self._protocol.fits(told)):
            value = json.dumps(told)
            raise InputError(
                f"{self._name}: answer {answer_id!r:.60}: {field} is {value:.80}: "
                f"expected {expected}"
            )
        if not isinstance(answer_id, str):
            raise InputError(
                f'{self._name}: expected lines {{"id": "...", "{field}": {expected}}}, '
                f"got {line[:80].decode('utf-8', 'backslashreplace')!r}{self._last_words()}"
            )
        return ScorerReply(
            answer_id, told, str(record.get("error", ""))[:200] if told is None else ""
        )

    def _read_errors(self) -> None:
        pipe = self._process.stderr
        assert pipe is not None
        with suppress(OSError, ValueError):
            while read := os.read(pipe.fileno(), _READ):
                self._errors = bytearray((self._errors + read)[-_KEPT_ERRORS:])

    def _last_words(self) -> str:
        """Return the process's exit code and its last line on standard error, in words."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.3)
            self._drain.join(0.3)
        code = self._process.poll()
        lines = bytes(self._errors).decode("utf-8", "backslashreplace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        printable = "".join(each if each.isprintable() else " " for each in said)[:200]
        ended = "" if code is None else f" with exit code {code}"
        return f"{ended}; its last words: {printable}" if printable else ended
