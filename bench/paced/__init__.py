"""Paced training: real tensors and collectives around computation that is waited for."""
