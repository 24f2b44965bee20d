"""What a model is shown of a task: prompts and tool schemas."""
