"""Expectation propagation, stochastic and differentially private."""
