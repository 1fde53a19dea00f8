"""One rule a file. `hpo.search.pruner` says what they promise and picks one."""
