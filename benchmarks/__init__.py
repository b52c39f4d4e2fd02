"""Side by side, in one run, on one machine: what noisewise costs against its alternatives."""
