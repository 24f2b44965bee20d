"""Pages of the laboratory: one shell, one stylesheet, one maker of reports."""
