"""Jinja2 skeletons that cannot be injected into: only numbers and text quoted for the format may be interpolated."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2

from a2a_claude.package_data import folder


class Quoted(str):
    """Text in the syntax of an output format. Only a format's own quoting functions make it."""

    __slots__ = ()


def _refuse_unquoted(value: Any) -> Any:
    if isinstance(value, Quoted) or type(value) is int:
        return value
    raise TypeError(f"a template interpolated {value!r}, which no quoting function made")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder("templates")),
        undefined=jinja2.StrictUndefined,
        finalize=_refuse_unquoted,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - the outputs are no HTML; `finalize` lets nothing unquoted through
    )


def fill(template: str, **values: Any) -> str:
    """`templates/<template>` with `values`; TypeError when an interpolated value is neither `Quoted` nor an int."""
    return _environment().get_template(template).render(**values)
