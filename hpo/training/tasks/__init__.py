"""The things that can be trained, one a file; each fulfils the contract in `hpo.training.task`."""
