"""Stands in for a conformance kit where there is no network: the options of its three, and one check of the server.

`1.0-dev` takes --sut-host and hands what follows `--` to pytest; the other two take --sut-url and a category.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    kit = Path("kit.txt").read_text("utf-8").strip()
    parser = argparse.ArgumentParser()
    if kit == "1.0-dev":
        parser.add_argument("--sut-host", dest="url", required=True)
        parser.add_argument("--transport", dest="transports", required=True)
        parser.add_argument("rest", nargs="*")
    else:
        categories = ["mandatory", "capabilities", "transport-equivalence", "quality", "features", "all"]
        parser.add_argument("--sut-url", dest="url", required=True)
        parser.add_argument("--category", choices=categories, required=True)
        parser.add_argument("--transports", required=True)
        parser.set_defaults(rest=[])
    given = parser.parse_args()
    environ = {**os.environ, "KIT": kit, "KIT_URL": given.url, "KIT_TRANSPORTS": given.transports}
    # No server but one of the documentation requires an extension, and there the page names these checks.
    rest = given.rest if "-k" in given.rest else [*given.rest, "-k", "not TestCapabilityExtensionRequired"]
    command = [sys.executable, "-m", "pytest", "--color=no", "checks.py", *rest]
    return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
