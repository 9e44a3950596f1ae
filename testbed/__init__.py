"""Emulated clusters on one machine: hosts as network namespaces, links with a given rate."""
