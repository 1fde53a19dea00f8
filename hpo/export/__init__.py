"""Best trial -> a bundle that runs without us."""
