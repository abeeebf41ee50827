"""Neural networks: translation of their layers into the operations of ML Programs.

Each layer type has one row. The rows of a family are in one module, and `layers` joins all rows.
"""

from coremlscope.formats.neuralnetwork.interface import with_sequences
from coremlscope.formats.neuralnetwork.network import read_network

__all__ = ["read_network", "with_sequences"]
