"""`python -m belvedere` is `belvedere`."""

import sys

from belvedere.cli import main

sys.exit(main())
