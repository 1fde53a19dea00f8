"""The `hpo` command: one file a verb; parses, calls, prints; decides nothing."""
