"""Attacks on noisewise's own mechanism: what they show of epsilon, beside what is claimed."""

from noisewise.audit.result import Attack, Audit
from noisewise.audit.runner import audit
