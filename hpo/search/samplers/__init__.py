"""One strategy a file. `hpo.search.sampler` says what they promise and picks one."""
