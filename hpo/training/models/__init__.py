"""Networks, one a file; `classifier` puts one behind its normalisation."""
