"""Where images are read from: sets known by name, folders, array files, functions."""
