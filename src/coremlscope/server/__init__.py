"""The local web page over saved profiles, which also profiles uploaded models."""

from coremlscope.server.limits import Limits
from coremlscope.server.server import Address, serve

__all__ = ["Address", "Limits", "serve"]
