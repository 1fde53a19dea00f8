"""A look at a data set before anything is trained on it: `hpo data`."""
