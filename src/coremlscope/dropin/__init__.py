"""A stand-in for Core ML below coremltools, for machines that are not Macs.

coremltools reaches Core ML through one native module, `coremltools.libcoremlpython`, which only its Mac
builds hold. `install` supplies that module from here, so that `MLModel(path).predict({...})` and its kin
work unchanged.
"""

from coremlscope.dropin.installation import install, is_installed, uninstall

__all__ = ["install", "is_installed", "uninstall"]
