"""An MCP server of a few lines over standard input and output, faulty as its argument says.

Its tool `add` declares a text and an integer. "hang", "die", "changes" (its tools), "lies" (wants
an integer where it declared a text), "nonsense" (no result in MCP's form), "big:N" (N characters),
"parts:N" (N texts), "surrogate", "deep" and "digits" (JSON that readers refuse), "chatty" (lines
that are no messages); "silent" never answers at all. "listed_MODE" lists its tool so already.
"daemon" has left a process in a session of its own. It outlives SIGTERM.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import Any

ADD = {
    "name": "add",
    "description": "Add.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a"],
    },
}


def serve(mode: str) -> None:
    """Answer until the input ends."""
    tools = [ADD]
    for line in sys.stdin:
        request = json.loads(line)
        if mode == "silent":
            time.sleep(600)
        if "id" not in request:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        method = request["method"]
        if method == "initialize":
            answer["result"] = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "fake", "version": "1"},
            }
        elif method == "tools/list":
            answer["result"] = {"tools": tools}
            if mode.startswith("listed_"):
                answer["result"] = {"tools": [ADD | {"title": unreadable(mode[7:])}]}
        elif method == "tools/call":
            tools = [] if mode == "changes" else tools
            answer |= called(mode, request["params"].get("arguments", {}))
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        print(json.dumps(answer).replace('"-DIGITS-"', "9" * 10_000), flush=True)


def called(mode: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what answers a call, if anything does."""
    if mode == "hang":
        time.sleep(600)
    if mode == "die":
        print("out of luck", file=sys.stderr)
        sys.exit(3)
    if mode == "chatty":
        print("thinking ...")
    if mode == "changes":
        return {"error": {"code": -32602, "message": "Unknown tool: add"}}
    if mode.startswith("parts:"):
        return {"result": {"content": text("3")["content"] * int(mode[6:])}}
    if mode in ("surrogate", "deep", "digits"):
        return {"result": {"content": [], "structuredContent": {"x": unreadable(mode)}}}
    if mode == "nonsense":
        return {"result": {"content": "3"}}
    if mode == "lies" and not isinstance(arguments.get("a"), int):
        return {"result": text("a must be an integer") | {"isError": True}}
    return {"result": text("x" * int(mode[4:]) if mode.startswith("big:") else "3")}


def unreadable(mode: str) -> Any:
    """Return a value whose JSON readers refuse."""
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    return {"surrogate": "\ud83d", "deep": deep, "digits": "-DIGITS-"}[mode]


def text(words: str) -> dict[str, Any]:
    """Return a result with a text."""
    return {"content": [{"type": "text", "text": words}]}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.argv[1] == "daemon":
        program = [sys.executable, "-c", "import time; time.sleep(600)", __file__]
        subprocess.Popen(program, start_new_session=True, stdin=subprocess.DEVNULL)
    serve(sys.argv[1])
