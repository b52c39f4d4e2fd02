"""Attacks on what is bought in one release: sums over all rows, and their number."""

from __future__ import annotations

import math

import numpy as np

from noisewise.audit.canaries import Game, Played
from noisewise.data import PrivateRows
from noisewise.mechanism import Budget, calibrate, release_sum
from noisewise.mechanism.counting import count_release, noisy_count

_CANARIES = 256
_ROWS = 1000


def attack_sums(budget: Budget, trials: int) -> tuple[Game, Played]:
    """Sums with a canary in each of their coordinates, or none by a coin; see `canaries.play`.

    Args:
        budget: Each sum takes all of it.
        trials: Of either kind.
    """
    game = Game(calibrate(budget, 1.0, 1), 1.0, 1, budget.adjacency == "replace-one")
    rng = np.random.default_rng()  # the attacker's own: no privacy in it
    released, present = [], []
    for _ in range(math.ceil(2 * trials / _CANARIES)):
        there = rng.random(_CANARIES) < 0.5
        values = PrivateRows({"values": np.diag(1e3 * game.said(there))})
        released.append(release_sum(values, 1.0, budget, what="the audit's sums").total)
        present.append(there)
    return game, _played(game, np.concatenate(released), np.concatenate(present))


def attack_counts(budget: Budget, trials: int) -> tuple[Game, Played]:
    """Noisy numbers of rows, with one row more or not.

    Args:
        budget: Each number takes all of it; a fit's takes a hundredth.
        trials: Of either kind.
    """
    release = count_release(budget, share=1.0)
    game = Game(release.noise_multiplier, 1.0, 1, replace_one=False)
    present = np.arange(2 * trials) % 2 == 1
    released = [noisy_count(_ROWS + int(there), release) - _ROWS for there in present]
    return game, _played(game, np.array(released, float), present)


def _played(game: Game, released: np.ndarray, present: np.ndarray) -> Played:
    scores = game.score(released[:, None, None]).ravel()
    silence, speech = released[~present], released[present]
    return Played(scores[~present], scores[present], silence, speech)
