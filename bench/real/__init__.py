"""Real training: models that compute, on the ranks of a job."""
