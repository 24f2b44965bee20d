"""Loop around OpenAI's client: tools that answer "done", until the model calls none.

pip install openai
fctncalling train --agent_command "python examples/gateway/openai_agent.py"
"""

import json
import sys
from typing import Any

from openai import OpenAI

MAX_STEPS = 3


def answer(client: OpenAI, task: dict[str, Any]) -> None:
    """Let the model work on a task."""
    messages: list[Any] = list(task["messages"])
    for _ in range(MAX_STEPS):
        completion = client.chat.completions.create(
            model="policy", messages=messages, tools=task["tools"]
        )
        message = completion.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "done"})


for line in sys.stdin:
    told = json.loads(line)
    answer(OpenAI(base_url=told["base_url"], api_key=told["api_key"]), told["task"])
    print(json.dumps({"session": told["session"]}), flush=True)
