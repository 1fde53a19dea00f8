"""What the trials of a study say: means, intervals, paired effects, and how sure we may be."""
