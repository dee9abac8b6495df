"""What the MCP conformance suite asks for by name, added to our own server; for tests only.

The suite speaks HTTP and sends no token: `--bare` runs the very application that is served to
users, with the token put in on the way; without it the fixtures are added and no token is asked.

    python -m tests.server.conformance_fixtures [--bare]      prints its URL, serves until killed
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    JSONRPCMessage,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_compaction.door import Door
from mcp_compaction.server.app import build_server
from mcp_compaction.server.http import ServerAddress, build_app, ensure_token, names_of
from mcp_compaction.server.state import State
from mcp_compaction.settings import Settings, load_settings

Ctx = Context[State]
Server = MCPServer[State]
Asks = dict[str, InputRequest]

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5E"
    "rkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PAUSE = 0.05
FIXTURE = "A conformance fixture."


def add_fixtures(server: Server) -> None:
    """Add all that the suite calls, reads, gets or subscribes to."""
    for tool in (
        *(test_simple_text, test_image_content, test_audio_content, test_embedded_resource),
        *(test_multiple_content_types, test_error_handling, test_tool_with_logging),
        *(test_tool_with_progress, test_reconnection, test_sampling, test_elicitation),
        *(test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums, test_x_mcp_header),
        *(test_missing_capability, json_schema_2020_12_tool),
        *(test_input_required_result_elicitation, test_input_required_result_sampling),
        *(test_input_required_result_list_roots, test_input_required_result_request_state),
        *(test_input_required_result_multiple_inputs, test_input_required_result_multi_round),
        *(test_input_required_result_tampered_state, test_input_required_result_capabilities),
    ):
        server.add_tool(tool, description=FIXTURE)
    _set_schema(server, "json_schema_2020_12_tool", SCHEMA_2020_12)
    _add_changes(server)
    _add_resources(server)
    _add_prompts(server)
    _add_handlers(server)


# Content


def _picture() -> ImageContent:
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=contents)


def test_simple_text() -> str:
    return "This is a simple text response for testing."


def test_image_content() -> list[ImageContent]:
    return [_picture()]


def test_audio_content() -> list[AudioContent]:
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


def test_embedded_resource() -> list[EmbeddedResource]:
    text = "This is an embedded resource content."
    return [_embedded("test://embedded-resource", "text/plain", text)]


def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    data = '{"test": "data", "value": 123}'
    return [
        _text("Multiple content types test:"),
        _picture(),
        _embedded("test://mixed-content-resource", "application/json", data),
    ]


def test_error_handling() -> str:
    raise ToolError("This tool intentionally returns an error for testing")


# While a tool runs


async def test_tool_with_logging(ctx: Ctx) -> str:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(said)  # pyright: ignore[reportDeprecated]
        await anyio.sleep(PAUSE)
    return "Tool with logging executed successfully"


async def test_tool_with_progress(ctx: Ctx) -> str:
    for percent in (0, 50, 100):
        await ctx.report_progress(percent, 100, f"Completed step {percent} of 100")
        await anyio.sleep(PAUSE)
    return str((ctx.request_context.meta or {}).get("progress_token", 0))


async def test_reconnection(ctx: Ctx) -> str:
    await ctx.info("Before disconnect")  # pyright: ignore[reportDeprecated]
    await ctx.close_sse_stream()
    await anyio.sleep(4 * PAUSE)
    await ctx.info("After reconnect")  # pyright: ignore[reportDeprecated]
    return "Reconnection test completed"


# Asking the client, as the handshake era does


async def test_sampling(prompt: str, ctx: Ctx) -> str:
    # Without the related id it would go to a stream that may not be open yet.
    result = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
        messages=[SamplingMessage(role="user", content=_text(prompt))],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    said = result.content.text if isinstance(result.content, TextContent) else "No response"
    return f"LLM response: {said}"


class Answer(BaseModel):
    response: str = Field(description="User's response")


class Defaults(BaseModel):
    name: str = Field(default="John Doe", description="User name")
    age: int = Field(default=30, description="User age")
    score: float = Field(default=95.5, description="User score")
    status: str = Field(
        default="active",
        description="User status",
        json_schema_extra={"enum": ["active", "inactive", "pending"]},
    )
    verified: bool = Field(default=True, description="Verification status")


def _titled(**titles: str) -> list[Any]:
    return [{"const": value, "title": title} for value, title in titles.items()]


class Enums(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})
    titledSingle: str = Field(json_schema_extra={"oneOf": _titled(low="Low", high="High")})
    untitledMulti: list[str] = Field(
        json_schema_extra={"items": {"type": "string", "enum": ["read", "write", "execute"]}}
    )
    titledMulti: list[str] = Field(
        json_schema_extra={"items": {"anyOf": _titled(bug="Bug Fix", docs="Documentation")}}
    )
    legacyEnum: str = Field(
        json_schema_extra={"enum": ["small", "large"], "enumNames": ["Small", "Large"]}
    )


async def _ask(ctx: Ctx, message: str, schema: type[BaseModel]) -> str:
    result = await ctx.elicit(message=message, schema=schema)
    content = result.data.model_dump_json() if result.action == "accept" else "{}"
    return f"action={result.action}, content={content}"


async def test_elicitation(message: str, ctx: Ctx) -> str:
    return f"User response: {await _ask(ctx, message, Answer)}"


async def test_elicitation_sep1034_defaults(ctx: Ctx) -> str:
    said = await _ask(ctx, "Please provide user information", Defaults)
    return f"Elicitation completed: {said}"


async def test_elicitation_sep1330_enums(ctx: Ctx) -> str:
    return f"Elicitation completed: {await _ask(ctx, 'Please select values', Enums)}"


# What 2026-07-28 adds


def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "",  # noqa: PT028
) -> str:
    return f"region={region}"


def test_missing_capability(ctx: Ctx) -> str:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool requires the client 'sampling' capability",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return "Client declared sampling capability; proceeding."


def _form(message: str, **fields: str) -> ElicitRequest:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str) -> CreateMessageRequest:
    said = SamplingMessage(role="user", content=_text(text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[said], max_tokens=100))


def _filled(answer: object, name: str) -> str:
    given = answer.content if isinstance(answer, ElicitResult) else None
    return str((given or {}).get(name, "?"))


def test_input_required_result_elicitation(ctx: Ctx) -> str | InputRequiredResult:
    answer = (ctx.input_responses or {}).get("user_name")
    if answer is None:
        asked: Asks = {"user_name": _form("What is your name?", name="string")}
        return InputRequiredResult(input_requests=asked)
    return f"Hello, {_filled(answer, 'name')}!"


def test_input_required_result_sampling(ctx: Ctx) -> str | InputRequiredResult:
    answer = (ctx.input_responses or {}).get("capital_question")
    if not isinstance(answer, CreateMessageResult):
        asked: Asks = {"capital_question": _sample("What is the capital of France?")}
        return InputRequiredResult(input_requests=asked)
    return f"Model said: {answer.content}"


def test_input_required_result_list_roots(ctx: Ctx) -> str | InputRequiredResult:
    answer = (ctx.input_responses or {}).get("client_roots")
    if not isinstance(answer, ListRootsResult):
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
    return f"Client exposed {len(answer.roots)} root(s)."


def _confirm(state: str) -> InputRequiredResult:
    asked: Asks = {"confirm": _form("Please confirm", ok="boolean")}
    return InputRequiredResult(input_requests=asked, request_state=state)


def test_input_required_result_request_state(ctx: Ctx) -> str | InputRequiredResult:
    confirmed = "confirm" in (ctx.input_responses or {})
    if confirmed and ctx.request_state == "request-state-nonce":
        return "state-ok: confirmation received"
    return _confirm("request-state-nonce")


def test_input_required_result_tampered_state(ctx: Ctx) -> str | InputRequiredResult:
    if ctx.request_state is None:
        return _confirm("round-1")
    return f"state-ok: {ctx.request_state}"


def test_input_required_result_multiple_inputs(ctx: Ctx) -> str | InputRequiredResult:
    asked: Asks = {
        "user_name": _form("What is your name?", name="string"),
        "greeting": _sample("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    if asked.keys() <= (ctx.input_responses or {}).keys():
        return "All inputs received."
    return InputRequiredResult(input_requests=asked, request_state="multiple-inputs")


def test_input_required_result_multi_round(ctx: Ctx) -> str | InputRequiredResult:
    state = json.loads(ctx.request_state) if ctx.request_state else {"round": 0}
    answers = ctx.input_responses or {}
    if state["round"] == 2 and "step2" in answers:
        return f"{state['name']} likes {_filled(answers['step2'], 'color')}."
    if state["round"] == 1 and "step1" in answers:
        asked: Asks = {"step2": _form("Step 2: What is your favorite color?", color="string")}
        known = {"round": 2, "name": _filled(answers["step1"], "name")}
        return InputRequiredResult(input_requests=asked, request_state=json.dumps(known))
    first: Asks = {"step1": _form("Step 1: What is your name?", name="string")}
    return InputRequiredResult(input_requests=first, request_state=json.dumps({"round": 1}))


def test_input_required_result_capabilities(ctx: Ctx) -> InputRequiredResult:
    capabilities = ctx.client_capabilities
    asked: Asks = {}
    if capabilities is None or capabilities.sampling is not None:
        asked["sample"] = _sample("Say hello")
    if capabilities is None or capabilities.elicitation is not None:
        asked["ask"] = _form("What is your name?", name="string")
    return InputRequiredResult(input_requests=asked, request_state="capability-gated")


SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def json_schema_2020_12_tool() -> str:
    return "json_schema_2020_12_tool"


def _set_schema(server: Server, tool: str, schema: dict[str, Any]) -> None:
    # The SDK has no public way to give a tool a schema of one's own.
    server._tool_manager._tools[tool].parameters = schema  # pyright: ignore[reportPrivateUsage]


def _add_changes(server: Server) -> None:
    def brief() -> str:
        """Here for a moment only."""
        return "brief"

    async def test_trigger_tool_change(ctx: Ctx) -> str:
        server.add_tool(brief, name="test_dynamic_tool")
        server.remove_tool("test_dynamic_tool")
        await ctx.notify_tools_changed()
        return "tool list changed"

    async def test_trigger_prompt_change(ctx: Ctx) -> str:
        server.add_prompt(Prompt.from_function(brief, name="test_dynamic_prompt"))
        server.remove_prompt("test_dynamic_prompt")
        await ctx.notify_prompts_changed()
        return "prompt list changed"

    for tool in (test_trigger_tool_change, test_trigger_prompt_change):
        server.add_tool(tool, description=FIXTURE)


# Resources, prompts and the handlers the SDK leaves to a server


def _add_resources(server: Server) -> None:
    def text() -> str:
        return "This is the content of the static text resource."

    def binary() -> bytes:
        return base64.b64decode(PNG)

    def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    def watched() -> str:
        return "Watched resource content"

    server.resource("test://static-text", name="static-text")(text)
    server.resource("test://static-binary", name="static-binary", mime_type="image/png")(binary)
    server.resource("test://template/{id}/data", name="template")(template)
    server.resource("test://watched-resource", name="watched")(watched)


def _user(content: Any) -> UserMessage:
    return UserMessage(role="user", content=content)


def _add_prompts(server: Server) -> None:
    def simple() -> list[UserMessage]:
        return [_user(_text("This is a simple prompt for testing."))]

    def with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        return [_user(_text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]

    def with_resource(resourceUri: str) -> list[UserMessage]:
        found = _embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [_user(found), _user(_text("Please process the embedded resource above."))]

    def with_image() -> list[UserMessage]:
        return [_user(_picture()), _user(_text("Please analyze the image above."))]

    def asking(ctx: Ctx) -> list[UserMessage] | InputRequiredResult:
        answer = (ctx.input_responses or {}).get("user_context")
        if answer is None:
            asked: Asks = {"user_context": _form("Which context?", context="string")}
            return InputRequiredResult(input_requests=asked)
        return [_user(_text(f"Use the following context: {_filled(answer, 'context')}"))]

    prompts: dict[str, Any] = {
        "test_simple_prompt": simple,
        "test_prompt_with_arguments": with_arguments,
        "test_prompt_with_embedded_resource": with_resource,
        "test_prompt_with_image": with_image,
        "test_input_required_result_prompt": asking,
    }
    for name, prompt in prompts.items():
        server.prompt(name, description=FIXTURE)(prompt)


def _add_handlers(server: Server) -> None:
    async def accept(_: ServerRequestContext[Any, Any], __: Any) -> EmptyResult:
        return EmptyResult()

    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    low.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)


# Running it


class Events(EventStore):
    """What was sent on each stream, for a client that comes back."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep a message; its id is its number."""
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send again what came after that message on its stream."""
        last = int(last_event_id)
        if not 1 <= last <= len(self._sent):
            return None
        stream = self._sent[last - 1][0]
        for number, (where, message) in enumerate(self._sent[last:], last + 1):
            if where == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def with_token(app: ASGIApp, token: str) -> ASGIApp:
    """The same application for a client that knows no token."""
    header = (b"authorization", f"Bearer {token}".encode())

    async def carry(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], header]
        await app(scope, receive, send)

    return carry


def bare_app(settings: Settings, door: ServerAddress) -> ASGIApp:
    """What is served to users."""
    token = ensure_token(settings.home)
    return with_token(build_app(settings, "/conformance", {}, door, token), token)


def fixture_app(settings: Settings, door: ServerAddress) -> ASGIApp:
    """Our server with the fixtures, and no token."""
    server = build_server(settings, "/conformance", {}, must_name=True)
    add_fixtures(server)
    unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        transport_security=unguarded, event_store=Events(), retry_interval=100
    )
    return Door(app, names_of(door), None)


def main(arguments: list[str]) -> None:
    """Serve on a free port until killed."""
    with tempfile.TemporaryDirectory() as home, socket.create_server(("127.0.0.1", 0)) as listener:
        settings = load_settings({**os.environ, "MCP_COMPACTION_HOME": str(Path(home, "store"))})
        door = ServerAddress(port=listener.getsockname()[1])
        app = (bare_app if "--bare" in arguments else fixture_app)(settings, door)
        sys.stdout.write(f"{door.url}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1:])
