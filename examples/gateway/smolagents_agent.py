"""Tool-calling agent of smolagents, with a tool and a reward that it reports.

It words its history anew ("Calling tools: ..."), so each of its steps is a row of its own.
Its model forces calls unless told otherwise, and nothing is forced on a policy that learns.

    pip install 'smolagents[openai]'
    fctncalling gateway --port 8080 --output recorded
    python examples/gateway/smolagents_agent.py http://127.0.0.1:8080/s/first/v1
"""

import json
import sys
import urllib.request

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

KEY = "none"  # whichever a session's first request has, opens the session from then on
MADE: list[str] = []


@tool
def create_ticket(title: str, priority: int) -> str:
    """Create a ticket.

    Args:
        title: what it is about
        priority: 1 to 5
    """
    MADE.append(title)
    return f"ticket {len(MADE)}"


base_url = sys.argv[1]
model = OpenAIServerModel("policy", api_base=base_url, api_key=KEY, tool_choice="auto")
agent = ToolCallingAgent(tools=[create_ticket], model=model, max_steps=3)
agent.run("Please create a ticket called laptop with priority 3.")
body = json.dumps({"reward": float("laptop" in MADE), "end": True}).encode()
url, headers = f"{base_url.removesuffix('/v1')}/reward", {"Authorization": f"Bearer {KEY}"}
with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answered:
    print(answered.read().decode())
