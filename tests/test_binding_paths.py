"""The paths of the HTTP+JSON bindings: ids and tenants of any characters, verbs that are never part of an id."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_claude.a2a import operations as op
from a2a_claude.a2a.rest_paths import BASES, binding, match
from a2a_claude.a2a.validation import RESERVED_TENANTS, acceptable_tenant

NAMES = st.text(min_size=1, max_size=20)
TENANTS = NAMES.filter(acceptable_tenant)


@given(base=st.sampled_from(BASES), tenant=st.one_of(st.just(""), TENANTS), task=NAMES, config=NAMES)
def test_ids_and_tenants_of_any_characters_come_back(base: str, tenant: str, task: str, config: str) -> None:
    prefix = f"{base}/{quote(tenant, safe='')}" if tenant else base
    raw, raw_config = quote(task, safe=""), quote(config, safe="")
    of_config = {"taskId": task, "id": config}
    cases = [
        (f"{prefix}/tasks/{raw}", "GET", op.GET, {"id": task}),
        (f"{prefix}/tasks/{raw}:cancel", "POST", op.CANCEL, {"id": task}),
        (f"{prefix}/tasks/{raw}:subscribe", "GET", op.SUBSCRIBE, {"id": task}),
        (f"{prefix}/tasks/{raw}:subscribe/", "POST", op.SUBSCRIBE, {"id": task}),
        (f"{prefix}/tasks/{raw}/pushNotificationConfigs", "POST", op.PUSH_CREATE, {"taskId": task}),
        (f"{prefix}/tasks/{raw}/pushNotificationConfigs/{raw_config}", "DELETE", op.PUSH_DELETE, of_config),
        (f"{prefix}/tasks", "GET", op.LIST, {}),
        (f"{prefix}/message:send", "POST", op.SEND, {}),
    ]  # fmt: skip
    for path, method, operation, ids in cases:
        found = match(path)
        assert found is not None, path
        assert (found.endpoint.version, found.tenant, found.ids) == ("1.0", tenant, ids), path
        assert found.endpoint.methods[method] is operation


@given(task=NAMES)
def test_a_verb_never_reaches_the_route_of_an_id(task: str) -> None:
    for base in BASES:
        for version in ("", "/v1"):
            found = match(f"{base}{version}/tasks/{quote(task, safe='')}:cancel")
            assert found is not None
            assert found.ids == {"id": task}
            assert found.endpoint.methods == {"POST": op.CANCEL}


@given(path=st.text(alphabet="/:%v1tasksmecancelpush{}.?a2F ", max_size=40) | st.text(max_size=40))
def test_any_path_is_ours_or_not_without_an_error(path: str) -> None:
    found = match(f"/{path}")
    assert found is None or found.endpoint.methods
    assert binding(f"/{path}") in ("jsonrpc", "rest", "rest-v03")


@pytest.mark.parametrize("name", [*sorted(RESERVED_TENANTS), "message:send", "message:other", "a/b"])
def test_a_tenant_that_would_hide_a_path_is_refused(name: str) -> None:
    found = match(f"/a2a/rest/{quote(name, safe='')}/tasks/x")
    assert found is None or found.tenant != name
    assert not acceptable_tenant(name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/tasks/x", {"id": "x"}),
        ("/a2a/rest/v1/tasks/x:cancel", {"id": "x"}),
        ("/v1/acme/tasks/x", None),
        ("/v1/tasks", None),
        ("/v1", None),
        ("/", None),
        ("/tasks/x/", {"id": "x"}),
        ("/tasks/x//", {"id": "x"}),
        ("//tasks/x", None),
        ("/acme//tasks", None),
        ("/tasks/x%", {"id": "x%"}),
        ("/tasks/%zz", {"id": "%zz"}),
    ],
)
def test_odd_paths(path: str, expected: dict[str, str] | None) -> None:
    found = match(path)
    assert (found.ids if found else None) == expected


def test_without_v03_its_paths_are_unknown() -> None:
    for path in ("/v1/tasks/x", "/a2a/rest/v1/card", "/agent/authenticatedExtendedCard"):
        assert match(path, legacy=False) is None
        assert match(path) is not None
