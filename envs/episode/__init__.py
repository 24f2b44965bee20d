"""State of one episode of FunctionCallingEnv."""
