"""The one private loop, and what an algorithm is to it."""

from noisewise.engine.algorithm import Algorithm, Numbers, Run, Step, release_numbers
from noisewise.engine.certify import PublicCount, certify, public_count, refuse_another_count
from noisewise.engine.phases import calibrate_phases, run_phases_secure, run_phases_simulated
from noisewise.engine.run import Finished, block_length, device_source, run_secure, run_simulated

__all__ = [
    "Algorithm",
    "Finished",
    "Numbers",
    "PublicCount",
    "Run",
    "Step",
    "block_length",
    "calibrate_phases",
    "certify",
    "device_source",
    "public_count",
    "refuse_another_count",
    "release_numbers",
    "run_phases_secure",
    "run_phases_simulated",
    "run_secure",
    "run_simulated",
]
