"""`python -m chatagent_test.inference --script file --port n`: the mock server as a program."""

from __future__ import annotations

import sys

from chatagent_test.inference.script_files.serving import main

sys.exit(main())
