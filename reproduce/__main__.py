"""Starts the command line."""

from reproduce.cli.app import main

if __name__ == "__main__":
    main()
