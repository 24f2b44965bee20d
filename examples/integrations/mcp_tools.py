"""Tools of an MCP server in an episode (mcp 2.3, mcp-server-time 2026.10.19).

`pip install 'fctncalling[mcp]' mcp-server-time`, then `python examples/integrations/mcp_tools.py`.
"""

import shutil
import sys
from pathlib import Path

import gymnasium

command = shutil.which("mcp-server-time", path=str(Path(sys.executable).parent))
env = gymnasium.make(
    "fctncalling:FunctionCalling-v0", tools=[f"mcp:{command or 'mcp-server-time'}"]
)
_, info = env.reset(options={"task_id": "multi_turn_base_0"})
print("offered:", *(tool["function"]["name"] for tool in info["tools"]))
*_, info = env.step("[get_current_time(timezone='Europe/Oslo'), ls()]")
for message in info["messages"]:
    print(message["content"])
env.close()
