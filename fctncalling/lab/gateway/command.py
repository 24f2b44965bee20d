"""Stand in for a model's server: record an unchanged agent's samples and their rewards.

An OpenAI-compatible server on this machine, answered by a model. Every episode of the agent is a
session, http://127.0.0.1:PORT/s/ID/v1 in place of the model's address; POST /s/ID/reward with
{"reward": number} and POST /s/ID/end finish it. Token ids and log-probabilities of all that was
sampled go to --output, which `fctncalling view` opens and `--sft_episodes` learns from.

example:
  fctncalling gateway --model my-model --port 8080 --output recorded
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.cli.shared.parser import (
    add_flag,
    add_switch,
    missing_training_message,
    print_error,
)
from fctncalling.model_folder import missing_model_message

if TYPE_CHECKING:
    from fctncalling.algorithms.generation.engine_api import Engine
    from fctncalling.algorithms.policy.chat_template import ChatTemplate
    from fctncalling.lab.gateway.gateway_session import GatewaySession, SessionLog


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    add = partial(add_flag, parser)
    servers = "vLLM servers, comma-separated, that sample; --model is then the tokenizer's folder"
    longest = "longest prompt and answer; default: the model's context, 4096 at most"
    idle = "seconds without a request after which a session is invalid; default: %(default)g"
    offered = "offer a request's N tools that its users' words fit best; default: all it brings"
    scoring = "scores sessions that got no reward: (messages, token rows) -> number"
    unpaid = "reward of sessions that got none; default: they are invalid"
    add("--model", str, "FOLDER", "folder of a model; default: the embedded one")
    add("--vllm_url", str, "URL", servers)
    parser.add_argument("--host", default="127.0.0.1", help="address; default: %(default)s")
    add("--port", int, "N", "0: a free one; default: %(default)s", 8080)
    parser.add_argument(
        "--token", default="", help="opens sessions; needed with a --host that others reach"
    )
    add("--output", Path, "FOLDER", "folder that sessions are recorded in")
    add("--chat_template", Path, "FILE", "in place of its own")
    kwargs = "arguments of the template; a request's own chat_template_kwargs come before them"
    add("--chat_template_kwargs", str, "JSON", kwargs)
    add(
        "--handler",
        str,
        "NAME",
        "form of calls; default: any, written as the template does",
        "auto",
    )
    parser.add_argument(
        "--temperature", type=float, default=1.0, help="of requests that name none; default: 1"
    )
    add("--max_new_tokens", int, "N", "longest answer; default: 256", 256)
    add("--max_episode_tokens", int, "N", longest)
    add("--offered", int, "N", offered)
    add("--parallel", int, "N", "answers at once; default: 16", 16)
    add("--session_timeout_s", float, "S", idle, 900.0)
    add("--reward", str, "MODULE:FUNCTION", scoring)
    add("--missing_reward", float, "X", unpaid)
    parser.add_argument("--seed", type=int, default=0, help="of what is sampled; default: 0")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda; default: auto")
    add_switch(parser, "--json", "print JSON lines instead of text")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted; return 0, 2 if it cannot start."""
    from fctncalling.algorithms.config import SettingError
    from fctncalling.algorithms.run.run_lock import RunLockedError

    faults = (SettingError, RunLockedError, OSError, ValueError, LookupError, OverflowError)
    try:
        return _serve(args)
    except faults as error:
        return print_error(error)
    except ImportError as error:
        return print_error(missing_training_message("gateway", error))


def _serve(args: argparse.Namespace) -> int:
    from fctncalling.data.bfcl import embedded_path
    from fctncalling.lab.gateway.gateway import Gateway, GatewaySettings
    from fctncalling.lab.gateway.gateway_server import GatewayServer
    from fctncalling.lab.gateway.rendering import ContextCallForm
    from fctncalling.lab.gateway.sampler import Sampler

    _check(args)
    folder = args.model or str(embedded_path("model"))
    score = _score(args.reward)
    template, context = _template(args, folder)
    settings = GatewaySettings(
        model=Path(folder).resolve().name,
        max_episode_tokens=args.max_episode_tokens or min(4096, context),
        temperature=args.temperature,
        session_timeout_s=args.session_timeout_s,
        missing_reward=args.missing_reward,
        token=args.token,
        offered=args.offered,
        seed=args.seed,
    )
    sampler, over = Sampler(args.parallel), threading.Event()
    form = ContextCallForm(template, args.handler)
    gateway = Gateway(template, sampler, settings, form=form, score=score)
    try:  # refused before weights are read
        server = GatewayServer(gateway, args.host, args.port)
    except OSError as error:
        raise ValueError(
            f"--host {args.host} --port {args.port}: {error.strerror or error}; give another, such "
            "as --port 0 for a free one"
        ) from None
    engine = _engine(args, folder, template)
    log = _session_log(args.output, template, folder)
    if log is not None:
        gateway.on_end = log.write

    def stop(*_: Any) -> None:
        over.set()
        sampler.wake()

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=_expire, args=(gateway, over), daemon=True).start()
    print(f"Call form: {form.call_form.line}.", file=sys.stderr)
    print(_started(args, settings.model, server.address), flush=True)
    sampler.run(engine, over.is_set)
    server.shutdown()
    sampler.close()
    lost = gateway.close()
    if log is not None:
        log.close()
        print(json.dumps(log.counts()) if args.json else log.summary())
    return _lost_sessions(lost, args.output) if lost else 0


def _session_log(folder: Path | None, template: ChatTemplate, model: str) -> SessionLog | None:
    """Return the log of a gateway's sessions; None without --output."""
    from fctncalling.lab.gateway.gateway_session import SessionLog

    if folder is None:
        return None
    log = SessionLog(folder, template, {"model": model})
    if log.removed_bytes:
        print(
            f"{log.path}: its last line was cut (a killed process): {log.removed_bytes} bytes of "
            "an unfinished record were removed",
            file=sys.stderr,
        )
    return log


def _lost_sessions(lost: list[GatewaySession], folder: Path) -> int:
    """Print which sessions could not be recorded; return the exit code."""
    names = ", ".join(session.id for session in lost[:10])
    return print_error(
        ValueError(
            f"--output {folder}: {len(lost)} sessions could not be recorded and are lost "
            f"({names}): make room on its disk"
        )
    )


def _started(args: argparse.Namespace, model: str, address: str) -> str:
    """Return the line with the gateway's addresses for agents."""
    sessions = f"{address}/s/ID/v1"
    if args.json:
        output = args.output and str(args.output)
        told = {"model": model, "address": f"{address}/v1", "sessions": sessions, "output": output}
        return json.dumps(told)
    recorded = (
        f"recorded in {args.output}" if args.output else "nothing is recorded without --output"
    )
    return f"{model} answers at {address}/v1, sessions at {sessions}; {recorded}"


def _check(args: argparse.Namespace) -> None:
    """Raise ValueError for an unusable setting."""
    from fctncalling.lab.gateway.gateway_session import belongs_to_another_command

    if args.model is not None and (missing := missing_model_message(args.model)):
        raise ValueError(f"--model {args.model}: {missing}")
    if args.output is not None and belongs_to_another_command(args.output):
        raise ValueError(f"--output {args.output}: it holds another run; give a folder of its own")
    if args.missing_reward is not None and not math.isfinite(args.missing_reward):
        raise ValueError(f"--missing_reward: got {args.missing_reward}, expected a number")
    if not args.session_timeout_s > 0:
        raise ValueError(f"--session_timeout_s: got {args.session_timeout_s:g}, expected seconds")
    for name, low in (
        ("max_new_tokens", 1),
        ("parallel", 1),
        ("max_episode_tokens", 2),
        ("offered", 1),
    ):
        value = getattr(args, name)
        if value is not None and value < low:
            raise ValueError(f"--{name}: got {value}, expected at least {low}")
    if not 0 <= args.temperature <= 2:
        raise ValueError(f"--temperature: got {args.temperature:g}, expected 0 to 2")


def _score(target: str | None) -> Any:
    """Return the function of --reward."""
    if target is None:
        return None
    from fctncalling.training.user_code import import_user_object

    score = import_user_object("reward", target)
    if not callable(score):
        raise ValueError(f"--reward {target}: expected a function (messages, rows) -> number")
    return score


def _template(args: argparse.Namespace, folder: str) -> tuple[ChatTemplate, int]:
    """Return a model's chat template, and how many tokens the model reads."""
    from transformers import AutoConfig, AutoTokenizer

    from fctncalling.training.load_policy import load_template

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    path = args.chat_template and str(args.chat_template)
    template = load_template(tokenizer, path, folder, args.chat_template_kwargs)
    return template, getattr(config, "max_position_embeddings", None) or 4096


def _engine(args: argparse.Namespace, folder: str, template: ChatTemplate) -> Engine:
    """Return the engine over a model, or over the servers that have it."""
    if args.vllm_url:
        from fctncalling.lab.gateway.served_model import served_engine

        return served_engine(args.vllm_url, template, args.max_new_tokens)
    import torch
    from transformers.utils.logging import disable_progress_bar

    from fctncalling.algorithms.config import resolve_device
    from fctncalling.algorithms.generation.engine import GenerationEngine
    from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model

    disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)  # more only spin on small models
    model = load_pretrained_model(folder)
    model.to(resolve_device(args.device))
    return GenerationEngine(
        model.eval(),
        template.stop_ids,
        temperature=args.temperature,
        max_new_tokens=args.max_new_tokens,
        decode=template.decode,
    )


def _expire(gateway: Any, over: threading.Event) -> None:
    while not over.wait(1.0):
        gateway.expire()
