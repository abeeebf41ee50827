"""The package's version, for modules below the package's own face."""

__version__ = "0.1.0"
