"""SessionLog: what was recorded, as the episodes of a run's folder."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.run.logs import episode_json, write_json
from fctncalling.data.unsafe_text import json_text
from fctncalling.lab.gateway.action_forest import kept_actions, row_weight_versions
from fctncalling.lab.gateway.gateway_session import GatewaySession

EPISODES = Path("episodes", "train_000000.jsonl")


class SessionLog:
    """Log of ended sessions, a JSON line each, as `view` and `--sft_episodes` read them."""

    def __init__(self, folder: Path, template: ChatTemplate, config: dict[str, Any]) -> None:
        self.path = folder / EPISODES
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", {"command": "gateway", **config})
        self._template = template
        self._file = self.path.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self.valid = 0
        self.invalid: dict[str, int] = {}  # reason -> sessions
        self.drift: dict[str, int] = {}  # kind -> places

    def write(self, session: GatewaySession) -> None:
        """Append a session that ended."""
        with session.lock:
            line = session_line(session, self._template)
        with self._lock:
            if session.invalid_reason:
                reason = session.invalid_reason
                self.invalid[reason] = self.invalid.get(reason, 0) + 1
            else:
                self.valid += 1
            for each in session.drift:
                self.drift[each.kind] = self.drift.get(each.kind, 0) + 1
            self._file.write(json_text(line, default=repr) + "\n")
            self._file.flush()

    def summary(self) -> str:
        """Return what was recorded, in a few lines."""
        lines = [f"{self.valid} sessions with a reward, {sum(self.invalid.values())} invalid"]
        lines += [f"  {count} invalid: {reason}" for reason, count in self.invalid.items()]
        lines += [f"  drift: {count} {kind}" for kind, count in sorted(self.drift.items())]
        return "\n".join(lines)

    def counts(self) -> dict[str, Any]:
        """Return what was recorded, as JSON."""
        return {"valid": self.valid, "invalid": dict(self.invalid), "drift": dict(self.drift)}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


def belongs_to_another_command(folder: Path) -> bool:
    """Whether a folder has what something else than a gateway wrote; a gateway's goes on."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return (folder / EPISODES).exists()
    except ValueError:
        return True
    return not isinstance(config, dict) or config.get("command") != "gateway"


def session_line(session: GatewaySession, template: ChatTemplate) -> dict[str, Any]:
    """Return a session as JSON: its episode, every action of its forest, its drift."""
    record = session.to_record()
    kept = kept_actions(session.forest, session.referred)
    line = episode_json(record, template.spell) | {"session": session.id, "seed": session.seed}
    line |= {"invalid_reason": record.invalid_reason} if record.invalid else {}
    return line | {
        "row_versions": row_weight_versions(session.forest, kept),
        "forest": [
            {
                "action": action.number,
                "request": action.request,
                "parent": action.parent,
                "kept": action.number in kept,
                "version": action.version,
                "text": session.texts[action.number],
                "context": list(action.context),
                "ids": list(action.ids),
                "logprobs": list(action.logprobs),
            }
            for action in session.forest.actions
        ],
        "drift": [each._asdict() for each in session.drift],
        "ignored": session.ignored,
    }
