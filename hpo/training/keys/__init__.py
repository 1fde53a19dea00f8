"""What may be written below `baseline`: one file for each group of keys. Imports no framework.

The folder stands apart from `data/`, `models/` and the rest, which read the assembled
configuration (`hpo.training.config`): arrows would otherwise run in a circle.
"""
