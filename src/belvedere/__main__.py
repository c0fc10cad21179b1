"""`python -m belvedere` is `belvedere`."""

import sys

from belvedere.cli.main import main

sys.exit(main())
