"""Credit ruler: estimators and critics graded against branched truth."""
