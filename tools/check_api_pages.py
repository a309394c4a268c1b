"""Checks a built site: every public name of the packages, as they are at run time, is on a page of the API reference.

Run it as `python tools/check_api_pages.py SITE`; what is missing is printed, and the exit status is 1.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from importlib import import_module
from pathlib import Path

PACKAGES = ("chatagent", "chatagent_test")
ROOMS = "chatagent_test."
"""The rooms of the test kit are private: users import from the package itself."""

ID = re.compile(r'\sid="([^"]+)"')


def public_names() -> list[str]:
    """Return every name in the `__all__` of a package, with the package in front."""
    names: list[str] = []
    for package in map(import_module, PACKAGES):
        subpackages = [
            each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.") if each.ispkg
        ]
        for area in map(import_module, (package.__name__, *subpackages)):
            if not area.__name__.startswith(ROOMS):
                names += [f"{area.__name__}.{name}" for name in getattr(area, "__all__", ())]
    return names


def main(site: Path) -> int:
    """Print what is missing in the site, and return the exit status."""
    pages = [path.read_text(encoding="utf-8") for path in site.glob("api/**/*.html")]
    ids = {found for page in pages for found in ID.findall(page)}
    names = public_names()
    missing = [name for name in names if name not in ids]
    print(f"{len(names)} public names, {len(pages)} API pages, {len(missing)} names missing")
    print(*missing, sep="\n", end="\n" if missing else "")
    return 1 if missing or not names else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
