"""The registration of the backend's name, which is a module of its own: see there."""

from _pleach_torch_entry import register

__all__ = ["register"]
