"""The ledger: the one place where what happened in a study is kept."""
