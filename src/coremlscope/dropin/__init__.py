"""A drop-in replacement for Core ML below coremltools, for machines other than Macs.

coremltools calls Core ML through one native module, `coremltools.libcoremlpython`, which only its Mac builds
contain. `install` supplies a replacement of that module, so that `MLModel(path).predict({...})` and related
calls work unchanged.
"""

from coremlscope.dropin.installation import install, is_installed, uninstall

__all__ = ["install", "is_installed", "uninstall"]
