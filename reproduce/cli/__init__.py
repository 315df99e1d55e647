"""The command line: thin commands over the same functions that every other face uses."""
