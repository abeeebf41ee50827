"""`python -m coremlscope`."""

import sys

from coremlscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
