"""`python -m counterplan`: the command line, where its script is not on the path."""

from counterplan.cli import main

if __name__ == "__main__":
    main()
