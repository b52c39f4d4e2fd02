"""The named-argument checks: what passes comes back, what does not is named and quoted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from noisewise._validate import (
    NoisewiseError,
    fraction,
    integer_at_least,
    one_of,
    positive,
    shown,
)

NAN = float("nan")


@pytest.mark.parametrize("value", [0, -1, -0.0, NAN, np.float32("nan"), -math.inf])
def test_positive_refuses_zero_negatives_and_nan(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^clip_norm must be a positive number, got"):
        positive("clip_norm", value)


def test_message_quotes_name_and_value() -> None:
    with pytest.raises(NoisewiseError) as caught:
        positive("clip_norm", NAN)
    assert str(caught.value) == "clip_norm must be a positive number, got nan"


@pytest.mark.parametrize("value", [True, "1", None, [1.0], np.bool_(True), 1j])
def test_positive_refuses_what_is_no_number(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^clip_norm must be a positive number, got"):
        positive("clip_norm", value)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0)])
def test_positive_returns_a_plain_float(value: Any) -> None:
    checked = positive("x", value)
    assert type(checked) is float
    assert checked == 2.0


def test_infinity_is_positive_unless_finite_is_asked_for() -> None:
    assert positive("clip_norm", math.inf) == math.inf
    with pytest.raises(ValueError, match=r"^clip_norm must be a positive finite number, got inf$"):
        positive("clip_norm", math.inf, finite=True)
    with pytest.raises(ValueError, match="fits a float"):
        positive("clip_norm", 10**400)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, NAN, math.inf])
def test_fraction_is_open_at_both_ends(value: float) -> None:
    with pytest.raises(ValueError, match=r"^rate must be a number strictly between 0 and 1, got"):
        fraction("rate", value)


def test_fraction_returns_a_plain_float() -> None:
    assert fraction("rate", np.float64(0.25)) == 0.25
    with pytest.raises(TypeError):
        fraction("rate", "0.5")


def test_integer_at_least() -> None:
    checked = integer_at_least("steps", np.int32(3), 3)
    assert type(checked) is int
    assert checked == 3
    with pytest.raises(ValueError, match=r"^steps must be an integer of at least 3, got 2$"):
        integer_at_least("steps", 2, 3)


@pytest.mark.parametrize("value", [1.0, NAN, "3", True, None])
def test_integer_at_least_refuses_other_types(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^steps must be an integer of at least 1, got"):
        integer_at_least("steps", value, 1)


def test_one_of() -> None:
    assert one_of("rule", "aligned", ["vanilla", "aligned"]) == "aligned"
    with pytest.raises(ValueError, match=r"^rule must be one of 'vanilla', 'aligned', got 'x'$"):
        one_of("rule", "x", ("vanilla", "aligned"))
    with pytest.raises(TypeError, match=r"^rule must be one of"):
        one_of("rule", None, ("vanilla",))


def test_messages_stay_on_one_line_and_short() -> None:
    assert "\n" not in shown(np.zeros((40, 40)))
    assert len(shown("x" * 1000)) <= 80
    with pytest.raises(TypeError) as caught:
        positive("x", np.zeros((40, 40)))
    assert "\n" not in str(caught.value)
