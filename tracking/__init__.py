"""WHAT HAPPENED in one run: checkpoints, lineage, and the mirror to MLflow. Usable without hpo."""
