"""How the tests compile: most programs run once, and briefly, so that compiling them is most of the
time. What they compute is the same up to rounding."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jaxlib.version

AS_IN_USE = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
"""Compiler options of a program that a test wants as users get it."""

_FLAGS = ["--xla_backend_optimization_level=1", "--xla_llvm_disable_expensive_passes=true"]
if jaxlib.version.__version_info__[:2] == (0, 10):
    # Half the compilation time; later versions no longer have the choice, and refuse the flag.
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
    AS_IN_USE["xla_cpu_use_fusion_emitters"] = True

_MOST_MAPS = 30_000
_HASTE = {
    "jax_disable_most_optimizations": True,
    # Small programs too: other workers, and later runs, find them in the cache.
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def compile_quickly(cache: str | None) -> None:
    """Less optimisation, and a folder for compiled programs: for this process and its children.

    To be called before JAX is used.
    """
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *_FLAGS]).strip()
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"


def forget_programs_if_many() -> None:
    """Compiled programs stay mapped into memory; Linux allows a process 65,530 maps, and beyond
    them the compiler crashes."""
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > _MOST_MAPS:
        jax.clear_caches()


@contextmanager
def hardly_optimised() -> Iterator[None]:
    """For many programs that are run for a moment each."""
    before = {name: jax.config.values[name] for name in _HASTE}
    for name, value in _HASTE.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
