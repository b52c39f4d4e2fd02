"""The one private loop, and what an algorithm is to it."""

from noisewise.engine.algorithm import (
    Algorithm,
    Run,
    Step,
    release_numbers,
    run_leaves,
    with_leaves,
)
from noisewise.engine.certify import (
    PublicCount,
    certify,
    certify_sums,
    public_count,
    refuse_another_count,
)
from noisewise.engine.checkpoints import Checkpoint, remove_checkpoint
from noisewise.engine.devices import Devices
from noisewise.engine.mirror import Mirror, said_to_others
from noisewise.engine.phases import calibrate_phases, run_phases_secure, run_phases_simulated
from noisewise.engine.run import Finished, block_length, run_secure, run_simulated
