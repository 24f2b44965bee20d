"""Python source, parsed and evaluated without eval."""
