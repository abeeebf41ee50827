"""The local web page: saved profiles, their history, and models to profile."""

from coremlscope.server.server import Address, Limits, serve

__all__ = ["Address", "Limits", "serve"]
