"""Neural networks: layers of Apple's older vocabulary, translated into that of ML Programs.

One row a type of layer, in a module a family, joined in `layers`.
"""

from coremlscope.formats.neuralnetwork.interface import with_sequences
from coremlscope.formats.neuralnetwork.network import read_network

__all__ = ["read_network", "with_sequences"]
