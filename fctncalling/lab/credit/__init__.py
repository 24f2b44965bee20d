"""Credit ruler: grades estimators and critics against branched truth."""
