"""WHAT is searched: values and rules. Standard library only, no I/O."""
