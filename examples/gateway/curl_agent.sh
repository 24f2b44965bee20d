#!/bin/sh
# An agent in a shell script: one question, and a reward for whether the answer calls create_ticket.
#
#   fctncalling gateway --port 8080 --output recorded
#   sh examples/gateway/curl_agent.sh http://127.0.0.1:8080/s/first/v1
#
# With `fctncalling train --agent_per_episode --agent_command "sh examples/gateway/curl_agent.sh"`
# the address and the key are in its environment.
set -eu
base=${1:-$OPENAI_BASE_URL}
post() {
    curl --silent --fail-with-body --header "Content-Type: application/json" \
        --header "Authorization: Bearer ${OPENAI_API_KEY:-none}" --data "$2" "$1"
}
answer=$(post "$base/chat/completions" '{
    "messages": [{"role": "user", "content": "Please create a ticket called laptop with priority 3."}],
    "tools": [{"type": "function", "function": {"name": "create_ticket", "description": "",
        "parameters": {"type": "object", "properties": {
            "title": {"type": "string"}, "priority": {"type": "integer"}}}}}]}')
echo "$answer" >&2
reward=0
case $answer in *'"name": "create_ticket"'*) reward=1 ;; esac
post "${base%/v1}/reward" "{\"reward\": $reward, \"end\": true}"
