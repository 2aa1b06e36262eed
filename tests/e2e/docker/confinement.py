"""What the shell of an agent in a container can do, and what it can see."""

from __future__ import annotations

from tests.e2e.caller import COMPLETED, Caller, bash
from tests.e2e.docker.compose import TOKEN, UID
from tests.e2e.fleet import KEY
from tests.fake_anthropic_api import FakeAPI

_LOOKS = """
    id --user; touch /etc/x /opt/x /run/x; touch /tmp/x && echo /tmp can be written
    grep --extended-regexp 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status; env
    cat /run/secrets/ANTHROPIC_API_KEY /run/secrets/CALLER_TOKENS; echo looked
"""


def check_shell(caller: Caller, api: FakeAPI) -> None:
    """Has the agent look around in its shell; AssertionError when that may more than it should, or sees a secret."""
    assert caller.send(bash(_LOOKS), {"text": "done"}).status.state == COMPLETED
    said = str(api.messages[-1]["body"]["messages"][-1])
    for expected in (str(UID), "/etc/x\\': Read-only file system", "/tmp can be written", "NoNewPrivs:\\t1", "looked"):
        assert expected in said
    for each in ("CapEff", "CapBnd"):
        assert f"{each}:\\t0000000000000000" in said
    for each in ("ANTHROPIC_API_KEY", "CALLER_TOKENS"):
        assert f"/run/secrets/{each}: Permission denied" in said
    for each in (KEY, TOKEN):
        assert each not in said
