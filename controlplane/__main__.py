"""`python -m controlplane`: the same as the console script."""

from controlplane.cli.main import main

if __name__ == "__main__":
    main()
