"""`python -m safedsr.cli`."""

import sys

from safedsr.cli import main

sys.exit(main())
