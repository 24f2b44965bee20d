"""Gateway: an OpenAI-compatible server that records what an unchanged agent samples."""
