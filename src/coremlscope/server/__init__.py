"""The local web page over saved profiles, which also profiles uploaded models."""

from coremlscope.server.server import Address, Limits, serve

__all__ = ["Address", "Limits", "serve"]
