"""Exact decisions about the sign of an integer polynomial on an interval.

A polynomial is a list of coefficients, lowest degree first, without trailing zeros; the empty
list is zero. Remainder sequences are kept primitive, so that the integers stay small.
"""

import math
from fractions import Fraction
from itertools import pairwise

Polynomial = list[int]


def is_nonnegative(polynomial: Polynomial, lower: Fraction, upper: Fraction) -> bool:
    """Tell whether the polynomial is nowhere negative between two rationals.

    It can change its sign only at a root of odd multiplicity. Those roots are the roots of a
    square-free factor, which Sturm's theorem counts in the open interval.
    """
    polynomial = trimmed(polynomial)
    if not polynomial:
        return True
    if _sturm_count(_odd_part(polynomial), lower, upper):
        return False
    return _sign_inside(polynomial, lower, upper) > 0


def trimmed(polynomial: Polynomial) -> Polynomial:
    """Return the polynomial without its leading zero coefficients."""
    size = len(polynomial)
    while size and polynomial[size - 1] == 0:
        size -= 1
    return polynomial[:size]


def product(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the product of two polynomials."""
    if not left or not right:
        return []
    result = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        if a:
            for j, b in enumerate(right):
                result[i + j] += a * b
    return result


def total(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the sum of two polynomials, untrimmed."""
    if len(left) < len(right):
        left, right = right, left
    return [a + b for a, b in zip(left, right, strict=False)] + left[len(right) :]


def powers(polynomial: Polynomial, highest: int) -> list[Polynomial]:
    """Return the powers 0 to `highest` of a polynomial."""
    result: list[Polynomial] = [[1]]
    for _ in range(highest):
        result.append(product(result[-1], polynomial))
    return result


def sign_at(polynomial: Polynomial, point: Fraction) -> int:
    """Return the exact sign (-1, 0, 1) of the polynomial at a rational."""
    value, scale = 0, 1
    for coefficient in reversed(polynomial):
        value = value * point.numerator + coefficient * scale
        scale *= point.denominator
    return (value > 0) - (value < 0)


def _sign_inside(polynomial: Polynomial, lower: Fraction, upper: Fraction) -> int:
    """Return the sign at some inner point that is no root; a degree has only so many roots."""
    pieces = len(polynomial) + 1
    for piece in range(1, pieces + 1):
        point = lower + (upper - lower) * Fraction(piece, pieces + 1)
        if sign := sign_at(polynomial, point):
            return sign
    return 1  # a single point: both ends agree, and the count above found no change


def _odd_part(polynomial: Polynomial) -> Polynomial:
    """Return the product of the factors of odd multiplicity (Musser's decomposition)."""
    shared = _divisor(polynomial, _derivative(polynomial))
    simple = _quotient(polynomial, shared)
    odd: Polynomial = [1]
    multiplicity = 1
    while len(simple) > 1:
        common = _divisor(simple, shared)
        if multiplicity % 2:
            odd = product(odd, _quotient(simple, common))
        simple, shared = common, _quotient(shared, common)
        multiplicity += 1
    return odd


def _sturm_count(squarefree: Polynomial, lower: Fraction, upper: Fraction) -> int:
    """Return how many distinct roots lie strictly between two rationals."""
    chain = [squarefree, _primitive(_derivative(squarefree))]
    while len(chain[-1]) > 1:
        chain.append([-c for c in _primitive(_remainder(chain[-2], chain[-1]))])
    at_upper = int(sign_at(squarefree, upper) == 0)
    return _variations(chain, lower) - _variations(chain, upper) - at_upper


def _variations(chain: list[Polynomial], point: Fraction) -> int:
    signs = [sign for member in chain if (sign := sign_at(member, point))]
    return sum(before != after for before, after in pairwise(signs))


def _derivative(polynomial: Polynomial) -> Polynomial:
    return [power * c for power, c in enumerate(polynomial)][1:]


def _primitive(polynomial: Polynomial) -> Polynomial:
    content = math.gcd(*polynomial) if polynomial else 1
    return [c // content for c in polynomial]


def _remainder(dividend: Polynomial, divisor: Polynomial) -> Polynomial:
    """Return a positive multiple of the remainder, with integer coefficients."""
    rest = list(dividend)
    lead = abs(divisor[-1])
    turn = 1 if divisor[-1] > 0 else -1
    while len(rest) >= len(divisor):
        factor = rest[-1] * turn
        offset = len(rest) - len(divisor)
        rest = [c * lead for c in rest]
        for power, c in enumerate(divisor):
            rest[offset + power] -= factor * c
        rest = trimmed(rest)
    return rest


def _divisor(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the greatest common divisor, primitive."""
    left, right = _primitive(left), _primitive(right)
    while right:
        left, right = right, _primitive(_remainder(left, right))
    return left


def _quotient(dividend: Polynomial, divisor: Polynomial) -> Polynomial:
    """Return the quotient of an exact division by a primitive polynomial."""
    rest = _primitive(dividend)
    result = [0] * (len(rest) - len(divisor) + 1)
    for offset in range(len(result) - 1, -1, -1):
        result[offset] = rest[offset + len(divisor) - 1] // divisor[-1]
        for power, c in enumerate(divisor):
            rest[offset + power] -= result[offset] * c
    return result
