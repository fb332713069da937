"""`python -m skyband`: the same as `skyband`."""

from skyband.cli import main

if __name__ == "__main__":
    main()
