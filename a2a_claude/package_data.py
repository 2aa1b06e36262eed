"""Where the schema and the templates are: inside the package in a wheel, beside it in a checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def folder(name: str) -> Path:
    """The folder `schema` or `templates`; FileNotFoundError when the installation is incomplete."""
    package = Path(__file__).parent
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{name}/ is missing from this installation of a2a-claude")
