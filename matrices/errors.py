"""What can be wrong with a matrix."""


class MatrixError(ValueError):
    """A matrix, its arms or its plan break a rule; says where, which rule and the way out."""

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        """Takes what was found, the `place` in the file that declares it and a way out."""
        super().__init__(message)
        self.place = place
        self.hint = hint
