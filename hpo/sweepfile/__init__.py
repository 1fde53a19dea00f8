"""YAML text <-> `Sweep`. Every error is `file:line: key.path: what, and what instead`."""
