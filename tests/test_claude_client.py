"""One live client: whose frames are whose, what an interrupt waits for, and how a process is lost and closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage

from a2a_claude.claude import client as clients
from a2a_claude.claude.client import Client, Stderr
from a2a_claude.claude.session import ClaudeLost, Received, Totals
from tests.fake_transport import Frame, ScriptedTransport, assistant, init, result
from tests.lifecycle import asynchronous

BLOCKS: list[dict[str, Any]] = [{"type": "text", "text": "hello"}]
INJECTED: dict[str, Any] = {"uuids": (), "origin": {"kind": "task-notification"}}


async def started(*turns: list[Frame], **how: bool) -> tuple[Client, ScriptedTransport]:
    transport = ScriptedTransport(turns, **how)
    client = Client(ClaudeAgentOptions(verbatim_prompts=True), transport, Stderr())
    await client.start()
    return client, transport


async def answered(client: Client, uuid: str = "u1") -> list[Received]:
    """The turn's frames up to its answer."""
    received = []
    async for each in client.turn(BLOCKS, uuid):
        received.append(each)
        if each.answers:
            break
    return received


def texts(received: list[Received]) -> list[str]:
    return [str(each.frame.get("result")) for each in received if each.frame["type"] == "result"]


@asynchronous
async def test_a_turn_gets_its_frames_raw_and_typed() -> None:
    client, transport = await started([init(), {"type": "tool_progress"}, assistant("hi"), result("hi")])
    received = await answered(client)
    assert [each.frame["type"] for each in received] == ["system", "tool_progress", "assistant", "result"]
    assert received[1].message is None
    assert isinstance(received[-1].message, ResultMessage)
    prompt = transport.written[-1]
    assert (prompt["uuid"], prompt["message"]["content"], prompt["client_composed"]) == ("u1", BLOCKS, True)
    assert client.session_id == received[0].frame["session_id"]
    assert (client.turns, client.totals) == (1, Totals(0.5, 1))
    await client.close()


@asynchronous
async def test_a_known_frame_that_is_malformed_does_not_end_the_stream() -> None:
    client, _ = await started([init(), {"type": "assistant", "message": {}}, result("fine")])
    received = await answered(client)
    assert received[1].message is None
    assert texts(received) == ["fine"]
    await client.close()


@asynchronous
async def test_the_empty_result_before_the_answer_of_a_resumed_session_is_not_the_answer() -> None:
    client, _ = await started([init(), result("", **INJECTED), init(), assistant("real"), result("real")])
    assert texts(await answered(client)) == ["real"]
    await client.close()


@asynchronous
async def test_a_round_that_the_cli_began_by_itself_is_none_of_the_next_prompt() -> None:
    client, transport = await started([result("first")], [result("old round", **INJECTED), init(), result("second")])
    await answered(client)
    transport.feed(init(), assistant("background"))
    while client.idle:
        await asyncio.sleep(0)
    received = await answered(client, "u2")
    assert texts(received) == ["second"]
    assert "background" not in str([each.frame for each in received])
    await client.close()


@asynchronous
async def test_a_prompt_that_a_running_round_takes_in_is_answered_by_that_round() -> None:
    origin = INJECTED["origin"]
    client, transport = await started([result("first")], [assistant("both"), result("both", origin=origin)])
    await answered(client)
    transport.feed(init())
    while client.idle:
        await asyncio.sleep(0)
    received = await answered(client, "u2")
    assert texts(received) == ["both"]
    assert [each.frame["type"] for each in received] == ["assistant", "result"]
    await client.close()


@asynchronous
async def test_rounds_after_the_answer_come_to_the_turn_that_still_listens() -> None:
    client, transport = await started([init(), result("started")])
    turn = client.turn(BLOCKS, "u1")
    found = []
    async for each in turn:
        if each.frame["type"] == "result":
            found.append((each.frame["result"], each.answers))
            if len(found) == 2:
                break
            transport.feed(init(), result("done", **INJECTED))
    assert found == [("started", True), ("done", False)]
    await client.close()


@asynchronous
async def test_it_reads_on_when_nobody_listens() -> None:
    """The SDK holds 100 messages; after them a client that is not read answers no interrupt."""
    client, transport = await started([result("first")])
    await answered(client)
    transport.feed(init(), *(assistant(str(number)) for number in range(500)))
    await asyncio.sleep(0.05)
    interrupting = asyncio.create_task(client.interrupt(5))
    await asyncio.sleep(0.05)
    transport.feed(result("", is_error=True, terminal_reason="aborted_streaming", uuids=()))
    assert await interrupting
    await client.close()


@asynchronous
async def test_an_interrupt_waits_for_the_aborted_result_and_the_client_goes_on() -> None:
    aborted = result("", is_error=True, terminal_reason="aborted_streaming", uuids=())
    client, _ = await started([init(), {"_wait_interrupt": True}, {"_sleep": 0.05}, aborted], [result("again")])
    turn = asyncio.create_task(answered(client))
    await asyncio.sleep(0.02)
    assert await client.interrupt(5)
    assert (await turn)[-1].frame["terminal_reason"] == "aborted_streaming"
    assert texts(await answered(client, "u2")) == ["again"]
    await client.close()


@asynchronous
async def test_an_idle_client_needs_no_interrupt() -> None:
    client, transport = await started([result("done")])
    await answered(client)
    assert await client.interrupt(5)
    assert not any(each.get("request", {}).get("subtype") == "interrupt" for each in transport.written)
    await client.close()


@pytest.mark.parametrize("how", [{"deaf": True}, {}], ids=["no answer", "no result"])
@asynchronous
async def test_an_interrupt_without_a_result_is_bounded(how: dict[str, bool]) -> None:
    client, _ = await started([init()], **how)
    turn = asyncio.create_task(answered(client))
    await asyncio.sleep(0.02)
    assert not await client.interrupt(0.1)
    await client.close()
    with pytest.raises(ClaudeLost):
        await turn


@pytest.mark.parametrize(("frame", "code"), [({"_exit": -9}, -9), ({"_raise": "boom"}, None)])
@asynchronous
async def test_a_broken_stream_breaks_the_turn_and_the_client(frame: Frame, code: int | None) -> None:
    client, _ = await started([init(), frame])
    with pytest.raises(ClaudeLost) as caught:
        await answered(client)
    assert caught.value.exit_code == code
    assert not client.usable
    with pytest.raises(ClaudeLost):
        await answered(client, "u2")
    await client.close()


@pytest.mark.parametrize("deaf", [True, False])
@asynchronous
async def test_a_turn_that_is_silent_goes_on_as_long_as_the_process_answers(
    deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "SILENT_SECONDS", 0.05)
    go = asyncio.Event()
    client, transport = await started([init(), {"_wait": go}, result("late")], deaf=deaf)
    turn = asyncio.create_task(answered(client))
    if deaf:
        with pytest.raises(ClaudeLost, match="does not answer"):
            await turn
        assert not client.usable
    else:
        while sum(each.get("request", {}).get("subtype") == "mcp_status" for each in transport.written) < 2:
            await asyncio.sleep(0.01)
        go.set()
        assert texts(await turn) == ["late"]
    await client.close()


@asynchronous
async def test_a_background_task_is_not_waited_for_when_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "CHANGE_SECONDS", 0.05)
    for deaf in (True, False):
        client, _ = await started([init(), result("held")], deaf=deaf)
        await answered(client)
        assert await client.stop_background("b1") is not deaf
        await client.close()


@asynchronous
async def test_closing_is_bounded_and_then_kills() -> None:
    client, transport = await started(stuck=True)
    await client.close(0.05)
    assert transport.killed


@asynchronous
async def test_a_close_that_is_cancelled_twice_closes_all_the_same() -> None:
    client, transport = await started(stuck=True)
    for _ in range(2):
        closing = asyncio.create_task(client.close(0.1))
        await asyncio.sleep(0.01)
        closing.cancel()
        await asyncio.wait({closing})
    assert not transport.killed
    await client.close()
    assert transport.killed
