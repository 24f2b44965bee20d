#!/bin/bash
# /tests/test.sh: plays what was said again, with the truth; without a reward, the tools failed.
cd "$(dirname "$0")/.." && episode --judge tests/task.json > reward.new \
 && mkdir -p logs/verifier && mv reward.new logs/verifier/reward.txt
