"""ToolBox: tools of a user's own."""
