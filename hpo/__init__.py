"""The search: an Optuna study orchestrator for PyTorch training trials."""
