"""The conductor: the only place where search, training, execution, storage and export meet."""
