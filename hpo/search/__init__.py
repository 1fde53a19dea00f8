"""WHICH trial next, and which to stop. Pure functions of a sweep and the trials so far."""
