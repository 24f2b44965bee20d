"""Box of tools that users supply."""
