"""HOW one trial is trained. Read `loop.py` first."""
