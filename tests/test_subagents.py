"""Sub-agents as tools: called over real sockets, on servers that do as they are told and on some that do wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import ParseDict

from a2a_claude.claude.delegates import Answer
from a2a_claude.claude.session import OptionsError
from a2a_claude.config.model import SubAgentAuthOauth2ClientCredentials
from a2a_claude.outgoing import reachable
from a2a_claude.store import Store
from a2a_claude.subagents import calls, conversations
from a2a_claude.subagents.credentials import ClientCredentials
from a2a_claude.subagents.delegation import KEY, MAX_DEPTH
from a2a_claude.subagents.service import Delegation, SubAgents
from tests.lifecycle import asynchronous
from tests.remote_agents import Bare, bare, card, obedient, plain
from tests.support import make_agent

V1, V03 = ("JSONRPC", "1.0"), ("JSONRPC", "0.3")
TOKEN = "token-of-the-caller-0123456789"


@contextlib.asynccontextmanager
async def opened(
    *agents: dict[str, Any], store: Store | None = None, session: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[SubAgents]:
    document: dict[str, Any] = {"agentCard": {"name": "Caller"}, "session": session or {}}
    document["subAgents"] = {"agents": list(agents), "options": options}
    found = SubAgents(make_agent(document).config, store)
    await found.open()
    try:
        yield found
    finally:
        await found.close(5)


def remote(url: str, name: str = "clerk", **more: Any) -> dict[str, Any]:
    return {"name": name, "agentCardUrl": url, **more}


def turn(agents: SubAgents, *, context_id: str = "c", owner: str = "ann", told: list[Any] | None = None) -> Delegation:
    def progress(*news: str) -> None:
        if told is not None:
            told.append(news)

    message = pb.Message(message_id="m", role=pb.Role.ROLE_USER, parts=[pb.Part(text="x")])
    return agents.delegation(message, task_id="t", context_id=context_id, owner=owner, progress=progress)


def text(answer: Answer) -> str:
    return answer.parts[0].text


async def reached(what: Any) -> None:
    """Until a thread has set it."""
    assert await asyncio.to_thread(what.wait, 30)


# --- What the tools are -----------------------------------------------------------------------------------------------


@asynchronous
async def test_skills_are_tools_named_by_the_config_and_a_card_without_skills_has_one_for_messages() -> None:
    with obedient() as (served, _), bare() as other:
        other.serve_card(card(other.url, V1, skills=[]))
        async with opened(remote(served.url), remote(other.url, "plain")) as agents:
            names = [each.name for each in agents.tools()]
            assert names == ["clerk__work", "plain__message", "task_status", "task_result", "task_cancel"]
            about = agents.tools()[0].description
            assert about == "Asks the agent Obedient: Work.\nDoes as told.\nFor example: chunks"


@asynchronous
async def test_a_remote_that_is_down_at_the_start_has_a_tool_and_gets_its_skills_when_it_is_back() -> None:
    with obedient() as (served, _), bare() as front:
        async with opened(remote(front.url)) as agents:
            assert agents.tools()[0].name == "clerk__message"
            assert "could not be reached" in agents.tools()[0].description
            assert agents.problem() == "1 of 1 agents are not available"
            answer = await turn(agents).call("clerk__message", {"message": "hello"})
            assert answer.failed
            assert text(answer) == "The agent clerk could not be asked: it answered HTTP 404."
            front.behind = served.url
            front.serve_card(card(front.url, V1))
            again = await turn(agents).call("clerk__message", {"message": "hello"})
            assert text(again) == "did hello"
            assert agents.tools()[0].name == "clerk__work"
            assert agents.problem() == ""
            assert agents.states() == {("clerk", "available"): 1.0}
            assert text(await turn(agents).call("clerk__message", {"message": "hello"})) == "did hello"


@asynchronous
async def test_probes_run_side_by_side_within_their_bound_and_stop_nothing() -> None:
    with bare() as hanging:
        hanging.answers["GET", "/.well-known/agent-card.json"] = hanging.hang
        remotes = [remote(hanging.url, f"r{number}") for number in range(20)]
        async with opened(*remotes, probeTimeoutMs=200) as agents:
            assert agents.problem() == "20 of 20 agents are not available"
            assert {each.problem for each in agents.remotes.values()} == {"it did not answer in time"}


CARDS: list[tuple[str, Any, str]] = [
    ("no JSON", plain(200, b"<html>"), "what is there is no card of an agent"),
    ("no card", plain(200, b"[1]"), "what is there is no card of an agent"),
    ("wrong types", plain(200, b'{"name": 7, "skills": "x"}'), "what is there is no card of an agent"),
    ("no interface", plain(200, b'{"name": "x"}'), "its card has no interface by JSON-RPC or HTTP+JSON"),
    ("another binding", plain(200, json.dumps(card("http://127.0.0.1", ("GRPC", "1.0"))).encode()), "no interface"),
    ("401", plain(401, b"{}"), "it wants other credentials (HTTP 401): see subAgents.agents[].auth"),
    ("redirect", plain(302, b"", Location="http://127.0.0.1/"), "it is somewhere else (HTTP 302)"),
    ("huge", plain(200, b" " * (2 << 20)), "its card is too large"),
    ("packed", plain(200, b"x", Content_Encoding="gzip"), "it sent a compressed answer"),
]


@pytest.mark.parametrize(("answer", "problem"), [each[1:] for each in CARDS], ids=[each[0] for each in CARDS])
@asynchronous
async def test_what_is_no_card_is_told_and_stops_nothing(answer: Any, problem: str) -> None:
    with bare() as served:
        served.answers["GET", "/.well-known/agent-card.json"] = answer
        async with opened(remote(served.url)) as agents:
            assert problem in agents.remotes["clerk"].problem
            assert (await turn(agents).call("clerk__message", {"message": "x"})).failed


# --- Calls ------------------------------------------------------------------------------------------------------------

INTERFACES = [V1, V03, ("HTTP+JSON", "1.0"), ("HTTP+JSON", "0.3")]


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(("binding", "version"), INTERFACES)
@asynchronous
async def test_each_version_and_binding_is_spoken_streaming_or_not(binding: str, version: str, streaming: bool) -> None:
    path = {"JSONRPC": "/a2a/jsonrpc"}.get(binding, "/a2a/rest")
    with obedient() as (served, executor), bare() as front:
        front.behind = served.url
        front.serve_card(card(front.url, (binding, version), path=path, capabilities={"streaming": streaming}))
        async with opened(remote(front.url)) as agents:
            now = turn(agents)
            assert text(await now.call("clerk__work", {"message": "chunks"})) == "0 1 2 "
            assert text(await now.call("clerk__work", {"message": "message"})) == "no task"
            asked = await now.call("clerk__work", {"message": "ask"})
            assert text(asked) == (
                "The agent clerk waits for input: Which one?\n\n"
                'Answer it by calling a tool of this agent again with task_id "clerk-3", or ask your own caller.'
            )
            answered = await now.call("clerk__work", {"message": "this one", "task_id": "clerk-3"})
            assert text(answered) == "you said this one"
            failed = await now.call("clerk__work", {"message": "fail"})
            assert failed.failed
            assert text(failed) == "The task clerk-4 of the agent clerk has ended as failed.\n\nit broke\n\nhalf of it"
            waits = await now.call("clerk__work", {"message": "auth"})
            assert "waits for an authorisation: Log in at example.com" in text(waits)
            first = executor.seen[0]["metadata"]
            assert first["skillId"] == "work"
            assert first["traceId"] == "c"
            assert first[KEY]["depth"] == 1
            assert [each["name"] for each in first[KEY]["path"]] == ["Caller"]


@asynchronous
async def test_the_conversation_with_a_remote_goes_on_per_context_also_after_a_restart(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.sqlite3")
    with obedient() as (served, executor):
        async with opened(remote(served.url), store=store) as agents:
            for context, more in (("c", {}), ("c", {}), ("d", {}), ("c", {"new_conversation": True}), ("c", {})):
                await turn(agents, context_id=context).call("clerk__work", {"message": "x", **more})
            await turn(agents, owner="bob").call("clerk__work", {"message": "x"})
        async with opened(remote(served.url), store=store) as agents:
            assert text(await turn(agents).call("task_result", {"task_id": "clerk-1"})) == "did x"
            await turn(agents).call("clerk__work", {"message": "x"})
            for owner, context in (("bob", "d"), ("eve", "c")):
                other = turn(agents, owner=owner, context_id=context)
                assert (await other.call("task_result", {"task_id": "clerk-1"})).failed
        first, second, other, new, after, bob, restarted = (each["contextId"] for each in executor.seen)
        assert first == second
        assert new == after == restarted
        assert len({first, other, new, bob}) == 4
    await store.close()


@asynchronous
async def test_a_conversation_begins_anew_when_the_session_of_claude_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000]
    monkeypatch.setattr(conversations, "_now", lambda: now[0])
    store = await Store.open(":memory:")
    with obedient() as (served, executor):
        for _ in range(2):  # also after a restart
            async with opened(remote(served.url), store=store, session={"ttl": 1000}) as agents:
                for passed in (0, 999, 1):
                    now[0] += passed
                    await turn(agents).call("clerk__work", {"message": "x"})
        first, second, third, fourth, fifth, sixth = (each["contextId"] for each in executor.seen)
        assert first == second != third == fourth == fifth != sixth
    await store.close()


@asynchronous
async def test_answers_of_long_ago_are_asked_for_again_instead_of_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "_MAX_KEPT", 100)
    with obedient() as (served, _):
        async with opened(remote(served.url)) as agents:
            now = turn(agents)
            for number in range(5):
                await now.call("clerk__work", {"message": f"{number} {'x' * 50}"})
            assert len(agents.conversations.open("ann", "c").calls) == 1
            assert text(await now.call("task_result", {"task_id": "clerk-1"})).startswith("did 0 ")


@asynchronous
async def test_calls_run_side_by_side_and_one_that_takes_long_becomes_a_task() -> None:
    with obedient() as (served, executor):
        async with opened(remote(served.url), syncBudgetMs=300) as agents:
            told: list[Any] = []
            now = turn(agents, told=told)
            slow = asyncio.create_task(now.call("clerk__work", {"message": "hang"}))
            await reached(executor.begun)
            agents.budget = None
            assert text(await now.call("clerk__work", {"message": "quick"})) == "did quick"
            assert "The task clerk-1 of the agent clerk is working and goes on. It says: thinking" in text(await slow)
            agents.budget = 0.3
            assert "is working and goes on" in text(await now.call("task_status", {"task_id": "clerk-1"}))
            assert "goes on" in text(await now.call("task_result", {"task_id": "clerk-1"}))
            await now.end(cancel=False)
            executor.gone_on.set()
            later = turn(agents)
            while "goes on" in (found := text(await later.call("task_result", {"task_id": "clerk-1"}))):
                pass
            assert found == "at last"
            assert "is completed" in text(await later.call("task_status", {"task_id": "clerk-1"}))
            assert ("clerk__work", "working", "thinking") in told
            assert executor.canceled == []


@pytest.mark.parametrize("how", ["the turn", "the call", "the tool"])
@asynchronous
async def test_cancelling_is_carried_through(how: str) -> None:
    with obedient() as (served, executor):
        async with opened(remote(served.url), syncBudgetMs=0) as agents:
            now = turn(agents)
            calling = asyncio.create_task(now.call("clerk__work", {"message": "hang"}))
            await reached(executor.begun)
            match how:
                case "the turn":
                    await now.end(cancel=True)
                case "the call":
                    calling.cancel()
                case "the tool":
                    answer = await now.call("task_cancel", {"task_id": "clerk-1"})
                    assert text(answer).startswith("The task clerk-1 of the agent clerk is canceled.")
            await asyncio.wait({calling})
            while not executor.canceled:
                await asyncio.sleep(0.01)
            assert len(executor.canceled) == 1


@asynchronous
async def test_a_question_of_a_turn_that_is_cancelled_is_taken_back() -> None:
    with obedient() as (served, executor):
        async with opened(remote(served.url)) as agents:
            now = turn(agents)
            await now.call("clerk__work", {"message": "ask"})
            await now.end(cancel=True)
            assert len(executor.canceled) == 1


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("clerk__work", {}, "The message is empty"),
    ("clerk__work", {"message": " "}, "The message is empty"),
    ("clerk__work", {"message": "x", "task_id": "clerk-9"}, "There is no task clerk-9 of the agent clerk"),
    ("clerk__play", {"message": "x"}, "There is no tool clerk__play"),
    ("clerk__wo\ud800rk", {"message": "x"}, "There is no tool clerk__wo?rk"),
    ("task_status", {}, "There is no task"),
    ("task_result", {"task_id": "clerk-9"}, "There is no task clerk-9"),
    ("task_cancel", {"task_id": ["x"]}, "There is no task"),
]


@asynchronous
async def test_what_claude_gets_wrong_is_an_answer_that_says_so() -> None:
    with obedient() as (served, _):
        async with opened(remote(served.url)) as agents:
            for tool, arguments, wanted in WRONG:
                answer = await turn(agents).call(tool, arguments)
                assert answer.failed
                assert wanted in text(answer)


@asynchronous
async def test_half_a_surrogate_pair_of_claude_does_not_stop_its_message() -> None:
    with obedient() as (served, _):
        async with opened(remote(served.url)) as agents:
            answer = await turn(agents).call("clerk__work", {"message": "parts\ud800"})
            assert not answer.failed
            answer = await turn(agents).call("task_status", {"task_id": "\ud800"})
            assert "There is no task ?" in text(answer)


# --- Answers ----------------------------------------------------------------------------------------------------------


@asynchronous
async def test_response_modes() -> None:
    with obedient() as (served, _):
        found = {}
        for mode in ("artifact", "compact", "structured", "raw"):
            async with opened(remote(served.url), responseMode=mode) as agents:
                found[mode] = await turn(agents).call("clerk__work", {"message": "parts"})
        url = "[The file of the answer (text/plain) is at https://example.com/o.txt]"
        assert text(found["artifact"]) == f'Grüße 🎉\n\n{{"count": 2}}\n\n{url}'
        assert [each.filename for each in found["artifact"].parts[1:]] == ["p.png", "../z.zip"]
        assert text(found["compact"]) == text(found["artifact"])
        assert len(found["compact"].parts) == 1
        structured = json.loads(text(found["structured"]))
        assert structured["state"] == "completed"
        assert structured["taskId"] == "clerk-1"
        assert structured["artifacts"][0]["parts"][1:3] == [
            {"data": {"count": 2}},
            {"filename": "p.png", "mediaType": "image/png", "bytes": 28},
        ]
        assert len(found["structured"].parts) == 3
        raw = json.loads(text(found["raw"]))
        assert raw["status"]["state"] == "TASK_STATE_COMPLETED"
        assert raw["artifacts"][0]["parts"][2]["text"] == "[28 bytes]"


@asynchronous
async def test_a_long_answer_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    with obedient() as (served, _):
        async with opened(remote(served.url)) as agents:
            now = turn(agents)
            first = text(await now.call("clerk__work", {"message": "huge"}))
            hint = '[60000 of 100007 characters. task_result with task_id "clerk-1" and offset 60000 goes on.]'
            assert first == "x" * 60_000 + "\n\n" + hint
            rest = text(await now.call("task_result", {"task_id": "clerk-1", "offset": 60_000}))
            assert rest == "x" * 40_000 + "the end"
            monkeypatch.setattr(calls, "MAX_ANSWER", 1000)
            cut = text(await now.call("clerk__work", {"message": "huge"}))
            assert cut.endswith("[The rest of the answer was too large, and was left out.]")


# --- Settings ---------------------------------------------------------------------------------------------------------

URL = "http://a.example"
SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"agentCardUrl": "reviewer:3031"}, "subAgents.agents[0].agentCardUrl is no absolute http or https URL"),
    ({"agentCardUrl": "http://["}, "subAgents.agents[0].agentCardUrl is no"),
    ({"endpointUrlOverride": "http://a b"}, "subAgents.agents[0].endpointUrlOverride is no"),
    ({"auth": {"mode": "bearer", "token": "a\nb"}}, "subAgents.agents[0].auth.token has characters"),
    ({"auth": {"mode": "bearer", "token": " "}}, "subAgents.agents[0].auth.token has characters"),
    ({"auth": {"mode": "api_key", "token": "k", "headerName": "X Y"}}, "auth.headerName is not the name of a header"),
    (
        {"auth": {"mode": "oauth2_client_credentials", "tokenUrl": "x", "clientId": "i", "clientSecret": "s"}},
        "subAgents.agents[0].auth.tokenUrl is no",
    ),
]


@asynchronous
async def test_values_that_cannot_be_used_are_named_at_the_start() -> None:
    for settings, wanted in SETTINGS:
        with pytest.raises(OptionsError, match=re.escape(wanted)):
            async with opened({"name": "a", "agentCardUrl": URL, **settings}):
                pass


# --- Credentials ------------------------------------------------------------------------------------------------------

BEARER = {"server": {"auth": {"bearer": {"tokensVariable": "T"}}}}
KEYS = {"server": {"auth": {"apiKey": {"keysVariable": "T", "header": "X-Key"}}}}


@pytest.mark.parametrize(
    ("wants", "auth"),
    [
        (BEARER, {"mode": "bearer", "token": TOKEN}),
        (KEYS, {"mode": "api_key", "token": TOKEN, "headerName": "X-Key"}),
        ({}, {"mode": "none"}),
    ],
)
@asynchronous
async def test_authentication(wants: dict[str, Any], auth: dict[str, Any]) -> None:
    with obedient(wants, {"T": f"ann:{TOKEN}"}) as (served, _):
        async with opened(remote(served.url, auth=auth)) as agents:
            assert text(await turn(agents).call("clerk__work", {"message": "x"})) == "did x"
        if wants:
            wrong = {**auth, "token": "another-token-0123456789"}
            async with opened(remote(served.url, auth=wrong)) as agents:
                answer = await turn(agents).call("clerk__work", {"message": "x"})
                assert answer.failed
                assert "HTTP 401" in text(answer)


class TokenEndpoint:
    """A token endpoint whose tokens are valid while they are in `served`'s list."""

    def __init__(self, web: Bare, *, in_body: bool = False, expires: Any = 3600) -> None:
        self.given: list[str] = []
        self._in_body, self._expires, self._tokens = in_body, expires, [TOKEN, "second-token-0123456789"]
        self._web = web
        web.answers["POST", "/token"] = self._answer

    def _answer(self, handler: Any) -> None:
        body = handler.body.decode()
        basic = handler.headers.get("Authorization") == "Basic bWU6cCUyRnc="  # me:p%2Fw
        known = ("client_id=me&client_secret=p%2Fw" in body) if self._in_body else basic
        if not known:
            return plain(401, b'{"error": "invalid_client"}')(handler)
        assert "grant_type=client_credentials" in body
        assert "scope=a+b" in body
        token = self._tokens[min(len(self.given), 1)]
        self.given.append(token)
        return plain(200, json.dumps({"access_token": token, "expires_in": self._expires}).encode())(handler)


@pytest.mark.parametrize("in_body", [False, True])
@asynchronous
async def test_oauth2_client_credentials_are_asked_for_once_and_renewed_when_refused(in_body: bool) -> None:
    environment = {"T": f"ann:{TOKEN}"}
    with obedient(BEARER, environment) as (served, _), bare() as issuer:
        endpoint = TokenEndpoint(issuer, in_body=in_body)
        auth = {
            "mode": "oauth2_client_credentials",
            "tokenUrl": f"{issuer.url}/token",
            "clientId": "me",
            "clientSecret": "p/w",
            "scopes": ["a", "b"],
        }
        async with opened(remote(served.url, auth=auth)) as agents:
            now = turn(agents)
            several = [now.call("clerk__work", {"message": "x"}) for _ in range(5)]
            assert {text(each) for each in await asyncio.gather(*several)} == {"did x"}
            assert endpoint.given == [TOKEN]
            agents.remotes["clerk"]._http.auth._token = "revoked"  # type: ignore[union-attr]
            answer = await now.call("clerk__work", {"message": "x"})
            assert endpoint.given == [TOKEN, "second-token-0123456789"]
            assert "HTTP 401" in text(answer)  # the server does not know the second one


@asynchronous
async def test_a_token_is_kept_as_long_as_it_is_valid() -> None:
    for expires in (3600, "3600", 0, None, "soon"):
        with bare() as web:
            web.answers["GET", "/"] = plain(200, b"{}")
            endpoint = TokenEndpoint(web, expires=expires)
            settings = {"tokenUrl": f"{web.url}/token", "clientId": "me", "clientSecret": "p/w", "scopes": ["a", "b"]}
            auth = ClientCredentials(SubAgentAuthOauth2ClientCredentials.load({"mode": "x", **settings}))
            async with httpx.AsyncClient(auth=auth) as http:
                for _ in range(3):
                    await http.get(web.url)
                assert endpoint.given == [TOKEN]
                auth._until = 0.0
                await http.get(web.url)
                assert len(endpoint.given) == 2
                assert web.asked[-1][2]["authorization"] == "Bearer second-token-0123456789"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (plain(400, b'{"error": "invalid_scope"}'), "its token endpoint gave no token (HTTP 400, invalid_scope)"),
        (plain(200, b'{"access_token": "a\\nb"}'), "gave no token (HTTP 200, no token in the answer)"),
        (plain(200, b"<html>"), "gave no token (HTTP 200, no token in the answer)"),
        (plain(500, b"{}"), "gave no token (HTTP 500"),
        (plain(200, b" " * (1 << 20)), "gave no answer (ValueError)"),
    ],
)
@asynchronous
async def test_a_token_endpoint_that_fails_is_told_without_a_secret(answer: Any, problem: str) -> None:
    with obedient() as (served, _), bare() as issuer:
        issuer.answers["POST", "/token"] = answer
        auth = {
            "mode": "oauth2_client_credentials",
            "tokenUrl": f"{issuer.url}/token",
            "clientId": "me",
            "clientSecret": "very-secret",
        }
        async with opened(remote(served.url, auth=auth)) as agents:
            found = text(await turn(agents).call("clerk__message", {"message": "x"}))
            assert problem in found
            assert "very-secret" not in found


# What a card says, and where the request goes: {front} is where the card is, {other} an agent at another port.
ELSEWHERE: list[tuple[str, str]] = [
    ("another host", "http://localhost.example:1"),
    ("another port of this machine", "http://127.0.0.1:{other}"),
    ("another port, by name", "http://localhost:{other}"),
    ("another address of this machine, another port", "http://127.0.0.2:{other}"),
    ("the standard port", "http://127.0.0.1"),
    ("every address, another port", "http://0.0.0.0:{other}"),
    ("a host with user information that looks right", "http://127.0.0.1:{front}@localhost.example:1"),
]


@pytest.mark.parametrize("advertised", [each[1] for each in ELSEWHERE], ids=[each[0] for each in ELSEWHERE])
@asynchronous
async def test_requests_go_to_the_origins_of_the_config_alone(advertised: str) -> None:
    auth = {"mode": "bearer", "token": TOKEN}
    with obedient() as (served, _), bare() as front, bare() as other:
        other.behind = served.url
        advertised = advertised.format(front=httpx.URL(front.url).port, other=httpx.URL(other.url).port)
        front.serve_card(card(advertised, V1))
        async with opened(remote(front.url, auth=auth), remote(front.url, "open")) as agents:
            for name in ("clerk", "open"):
                answer = text(await turn(agents).call(f"{name}__work", {"message": "x"}))
                assert "its card leads elsewhere (http://" in answer
                assert "set subAgents.agents[].endpointUrlOverride" in answer
            assert not other.asked
        override = f"{other.url}/a2a/jsonrpc"
        async with opened(remote(front.url, endpointUrlOverride=override, auth=auth)) as agents:
            assert text(await turn(agents).call("clerk__work", {"message": "x"})) == "did x"
            assert other.asked[-1][2]["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("advertised", ["http://localhost", "https://127.0.0.1", "http://[::1]", "http://0.0.0.0"])
@asynchronous
async def test_a_card_that_names_this_machine_and_its_own_port_means_where_it_came_from(advertised: str) -> None:
    with obedient() as (served, _), bare() as front:
        front.behind = served.url
        front.serve_card(card(f"{advertised}:{httpx.URL(front.url).port}", V1))
        async with opened(remote(front.url, auth={"mode": "bearer", "token": TOKEN})) as agents:
            assert text(await turn(agents).call("clerk__work", {"message": "x"})) == "did x"
            assert front.asked[-1][2]["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("card_url", "advertised", "wanted"),
    [
        ("https://a.example", "http://localhost:3000/rpc?x=1", "https://a.example/rpc?x=1"),
        ("http://a.example:8000/team/card.json", "http://0.0.0.0:3000/rpc", "http://a.example:8000/rpc"),
        ("http://a.example", "http://b.example/rpc", "http://b.example/rpc"),
        ("http://localhost:3000", "http://[::1]:3000/rpc", "http://localhost:3000/rpc"),
        ("http://localhost:3000", "http://127.0.0.1:3001/rpc", "http://127.0.0.1:3001/rpc"),
        ("http://localhost", "https://127.0.0.1/rpc", "https://127.0.0.1/rpc"),
        ("https://localhost", "http://127.0.0.1:443/rpc", "https://localhost/rpc"),
    ],
)
def test_where_a_card_sends_callers(card_url: str, advertised: str, wanted: str) -> None:
    assert reachable(advertised, card_url) == wanted


@asynchronous
async def test_no_redirect_carries_credentials_away() -> None:
    with bare() as front, bare() as other:
        front.serve_card(card(front.url, V1))
        front.answers["POST", "/a2a/jsonrpc"] = plain(307, b"", Location=f"{other.url}/a2a/jsonrpc")
        async with opened(remote(front.url, auth={"mode": "bearer", "token": TOKEN})) as agents:
            answer = text(await turn(agents).call("clerk__work", {"message": "x"}))
            assert "it is somewhere else (HTTP 307)" in answer
            assert not other.asked


# --- Remotes that do wrong --------------------------------------------------------------------------------------------


def dies(handler: Any) -> None:
    """Half an event stream, and nothing afterwards."""
    if b"Stream" not in handler.body:
        return
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    handler.wfile.write(f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': {'task': task}})}\n\n".encode())
    handler.wfile.flush()


def endless(handler: Any) -> None:
    """Events without an end."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    while True:
        handler.wfile.write(b"data: " + b"x" * 65536)


def crumbles(handler: Any) -> None:
    """One answer, byte by byte."""
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"1\r\n \r\n" * 10_000 + b"0\r\n\r\n")


FAULTS: list[tuple[str, Any, str]] = [
    ("dies mid-stream", dies, "its task may still run there. Its task is clerk-1."),
    ("closes at once", lambda _handler: None, "the connection broke"),
    ("500", plain(500, b"{}"), "it answered HTTP 500"),
    ("401", plain(401, b"{}"), "it wants other credentials (HTTP 401)"),
    ("429", plain(429, b"{}"), "it is asked too often now"),
    ("html", plain(200, b"<html>"), "what it answered is not A2A"),
    ("null", plain(200, b"null"), "it refused: Invalid JSON-RPC response"),
    ("no result", plain(200, b'{"jsonrpc": "2.0", "id": 1}'), "could not be asked"),
    (
        "refuses",
        plain(200, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}}'),
        "it refused: no",
    ),
    ("packed", plain(200, b"x", Content_Encoding="br"), "it sent a compressed answer"),
    ("crumbles", crumbles, "it sent more than"),
    ("endless", endless, "it sent more than"),
    (
        "NaN",
        plain(200, b'{"result": {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"data": NaN}]}}}'),
        "What the agent clerk has answered is not JSON",
    ),
    (
        "deep",
        plain(200, b'{"jsonrpc": "2.0", "id": 1, "result": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
        "what it answered is not A2A",
    ),
    ("nothing", plain(200, b'{"jsonrpc": "2.0", "id": 1, "result": {}}'), "it answered without a task or a message"),
]


@pytest.mark.parametrize(("fault", "wanted"), [each[1:] for each in FAULTS], ids=[each[0] for each in FAULTS])
@asynchronous
async def test_a_remote_that_does_wrong_is_an_answer_that_says_so(
    fault: Any, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_claude.subagents.http.MAX_RESPONSE", 1 << 20)
    with bare() as served:
        served.serve_card(card(served.url, V1))
        served.answers["POST", "/a2a/jsonrpc"] = fault
        async with opened(remote(served.url)) as agents:
            answer = await turn(agents).call("clerk__work", {"message": "x"})
            assert answer.failed
            assert wanted in text(answer)
            assert re.fullmatch(r"[^{}<>]*", text(answer))  # nothing of a traceback, nor of the remote's page


@asynchronous
async def test_a_remote_that_hangs_costs_the_budget_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_UNNAMED_SECONDS", 0.1)
    with bare() as served:
        served.serve_card(card(served.url, V1))
        served.answers["POST", "/a2a/jsonrpc"] = served.hang
        async with opened(remote(served.url), syncBudgetMs=200) as agents:
            now = turn(agents)
            assert "has not answered yet and goes on" in text(await now.call("clerk__work", {"message": "x"}))
            assert "has not answered yet" in text(await now.call("task_status", {"task_id": "clerk-1"}))
            await now.end(cancel=True)


@asynchronous
async def test_a_task_whose_id_came_late_can_be_asked_for_in_a_later_turn() -> None:
    with obedient() as (served, executor):
        async with opened(remote(served.url)) as agents:
            agents.budget = 1e-6
            now = turn(agents)
            assert "has not answered yet" in text(await now.call("clerk__work", {"message": "hang"}))
            await reached(executor.begun)
            while "is working" not in text(await now.call("task_status", {"task_id": "clerk-1"})):
                await asyncio.sleep(0.01)
            await now.end(cancel=False)
            executor.gone_on.set()
            agents.budget = None
            assert text(await turn(agents).call("task_result", {"task_id": "clerk-1"})) == "at last"


@asynchronous
async def test_a_task_that_the_remote_has_forgotten_is_told() -> None:
    with obedient() as (served, _), bare() as front:
        front.behind = served.url
        front.serve_card(card(front.url, V1))
        async with opened(remote(front.url)) as agents:
            await turn(agents).call("clerk__work", {"message": "ask"})
            with obedient() as (another, _):
                front.behind = another.url
                answer = await turn(agents).call("task_result", {"task_id": "clerk-1"})
                assert re.search("it refused: Task .* not found", text(answer))
                assert "still run" not in text(answer)


@asynchronous
async def test_a_stream_that_breaks_is_asked_for_instead() -> None:
    """The answer is had from the task when the remote has forgotten the stream."""
    with bare() as served:
        served.serve_card(card(served.url, V1))
        done: dict[str, Any] = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
        done["artifacts"] = [{"artifactId": "a", "parts": [{"text": "in the end"}]}]

        def answer(handler: Any) -> None:
            body = json.loads(handler.body)
            if body["method"] == "GetTask":
                plain(200, json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": done}).encode())(handler)
            else:
                dies(handler)

        served.answers["POST", "/a2a/jsonrpc"] = answer
        async with opened(remote(served.url)) as agents:
            assert text(await turn(agents).call("clerk__work", {"message": "x"})) == "in the end"


# --- Circles ----------------------------------------------------------------------------------------------------------

PATHS: list[tuple[Any, bool]] = [
    (None, True),
    ("garbage", True),
    ({"path": "x", "depth": []}, True),
    ({"path": [{"id": "a", "name": "A"}], "depth": 1}, True),
    ({"path": [{"id": "me", "name": "Caller"}, {"id": "a", "name": "A"}], "depth": 2}, False),
    ({"path": [], "depth": MAX_DEPTH}, True),
    ({"path": [], "depth": MAX_DEPTH + 1}, False),
    ({"path": [{"id": str(n), "name": "x" * 99} for n in range(MAX_DEPTH + 5)]}, False),
]


@asynchronous
async def test_a_request_that_comes_back_or_has_come_too_far_is_refused() -> None:
    async with opened() as agents:
        for path, good in PATHS:
            found = json.loads(json.dumps(path).replace('"me"', f'"{agents.me.id}"'))
            message = ParseDict({"messageId": "m", "metadata": {} if path is None else {KEY: found}}, pb.Message())
            if good:
                agents.delegation(message, task_id="", context_id="", owner="", progress=lambda *_: None)
                continue
            with pytest.raises(InvalidParamsError, match=r"in a circle: Caller → A → Caller|come through") as caught:
                agents.delegation(message, task_id="", context_id="", owner="", progress=lambda *_: None)
            assert len(str(caught.value)) < 1200
