import sys

from sempre.cli import main

sys.exit(main())
