"""Files and folders that hold models besides other things: apps, archives, folders, ExecuTorch programs."""

from coremlscope.formats.bundles.bundle import Bundle, FoundModel, open_bundle, split_name

__all__ = ["Bundle", "FoundModel", "open_bundle", "split_name"]
