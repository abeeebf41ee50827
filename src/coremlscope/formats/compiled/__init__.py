"""Compiled models, `.mlmodelc` folders: those of Apple's compiler and those of this package.

`marker` describes this package's own folders, which contain the source model. `folder` reads the folders of
Apple's compiler: it selects the reader by the files in them. `interface` reads what every kind of folder
tells about its interface, from `coremldata` (`coremldata.bin`) or `metadata` (`metadata.json`).
"""
