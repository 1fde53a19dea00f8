"""WHERE attempts run: processes, their slots, and the messages they exchange."""
