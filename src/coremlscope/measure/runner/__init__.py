"""The runner: an app that measures Core ML on an iPhone or a Mac, how it is built, and what it records."""
