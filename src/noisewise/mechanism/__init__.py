"""The privacy wall: budget, accounting, sampling, clipping, noise, certificate, ledger."""

from noisewise.mechanism.account import Account
from noisewise.mechanism.accounting import Release, calibrate
from noisewise.mechanism.blocks import in_blocks, room_for
from noisewise.mechanism.budget import Budget
from noisewise.mechanism.certificate import (
    Certificate,
    Verification,
    issue,
    verify_run,
    version_of,
)
from noisewise.mechanism.clipping import Grid, clipped_sum, make_grid, refuse_double_precision
from noisewise.mechanism.counting import count_cost
from noisewise.mechanism.ledger import Ledger, Reservation
from noisewise.mechanism.noise import (
    Chunk,
    DeviceSource,
    Draws,
    Passes,
    SecureSource,
    passes_of_share,
    usual_passes,
)
from noisewise.mechanism.release import Mechanism, noisy_sum
from noisewise.mechanism.sums import SumRelease, release_sum
