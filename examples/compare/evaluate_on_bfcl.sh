# Evaluates MODEL of an OpenAI-compatible endpoint (OPENAI_BASE_URL, OPENAI_API_KEY) on BFCL.
fctncalling import-bfcl
fctncalling run --agent "openai:$MODEL" --category multi_turn_base --output answers.jsonl
fctncalling score --input answers.jsonl
