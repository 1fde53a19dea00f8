"""`python -m hpo` is the `hpo` command."""

from hpo.cli.main import main

if __name__ == "__main__":
    main()
