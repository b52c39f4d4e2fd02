"""Shapes of arrays in signatures: jaxtyping's, which only the type checker needs to have."""

from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped
else:
    Bool = Float = Int = Shaped = Annotated
