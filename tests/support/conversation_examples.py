"""One conversation in each form of logs: a table is booked for four."""

from __future__ import annotations

import json
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"guests": {"type": "integer"}, "day": {"type": "string"}},
    "required": ["guests"],
}
TOOL = {"name": "book_table", "description": "Book a table.", "parameters": SCHEMA}
OPENAI_TOOLS = [{"type": "function", "function": TOOL}]
ASKED = "A table for 4, please."
CALL = '{"name": "book_table", "arguments": {"guests": 4}}'
_USER = {"role": "user", "content": ASKED}
_GIVEN = '{"guests": 4}'


def _call(guests: int, call_id: str = "c1") -> dict[str, Any]:
    function = {"name": "book_table", "arguments": json.dumps({"guests": guests})}
    return {"id": call_id, "type": "function", "function": function}


def _answer(*calls: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def _result(call_id: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _anthropic(given: Any, tool: dict[str, Any], **more: Any) -> dict[str, Any]:
    described = {"name": tool["name"], "description": "Book.", "input_schema": tool["parameters"]}
    return {"messages": [_USER, *given], "tools": [described], "system": "Help.", **more}


_USE = {"type": "tool_use", "id": "t1", "name": "book_table", "input": {"guests": 4}}
_USED = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}]}
_GEMINI_CALL = {
    "role": "model",
    "parts": [{"functionCall": {"name": "book_table", "args": {"guests": 4}}}],
}
_GEMINI: dict[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": ASKED}]}],
    "tools": [{"functionDeclarations": [{**TOOL, "parameters": {**SCHEMA, "type": "OBJECT"}}]}],
    "systemInstruction": {"parts": [{"text": "Help."}]},
}
_GEMINI_RESULT = {
    "role": "user",
    "parts": [{"functionResponse": {"name": "book_table", "response": {"ok": 1}}}],
}
_HUMAN = {"from": "human", "value": ASKED}
_COMPLETION = {"choices": [{"message": _answer(_call(4))}]}
_BODY = {"model": "m", "messages": [_USER], "tools": OPENAI_TOOLS}
_ITEM = {"type": "function_call", "call_id": "x", "name": "book_table", "arguments": _GIVEN}
_FLAT = {
    "guests": {"type": "int", "description": "How many."},
    "days": {"type": "List[str], optional"},
}
_BLANKS = {**TOOL, "name": "Table Booking API", "parameters": {**SCHEMA, "type": "dict"}}


def _lc(kind: str, **fields: Any) -> dict[str, Any]:
    path = ["langchain", "schema", "messages", f"{kind}Message"]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": fields}


_LC_CALL = {"name": "book_table", "args": {"guests": 4}, "id": "q", "type": "tool_call"}
_BEDROCK_TOOL = {"name": "book_table", "description": "Book.", "inputSchema": {"json": SCHEMA}}

EXAMPLES: dict[str, tuple[str, Any]] = {
    "openai": (
        "chat",
        {
            "messages": [
                {"role": "system", "content": "Help."},
                *(_USER, _answer(_call(4, "a"), _call(2, "b")), _result("b", "two"), _result("a")),
                {"role": "assistant", "content": "Booked."},
                *({"role": "user", "content": "And for 2."}, _answer(_call(2))),
            ],
            "tools": OPENAI_TOOLS,
        },
    ),
    "openai, a greeting first": (
        "chat",
        [
            {"role": "user", "content": "Hello!"},
            {"role": "assistant", "content": "Hi."},
            *(_USER, _answer(_call(4))),
        ],
    ),
    "openai, parts": (
        "chat",
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": ASKED}]},
                _answer(_call(4)),
            ]
        },
    ),
    "openai, function_call": (
        "chat",
        {
            "messages": [
                _USER,
                {"role": "assistant", "function_call": {"name": "book_table", "arguments": _GIVEN}},
                {"role": "function", "name": "book_table", "content": "ok"},
            ],
            "functions": [TOOL],
        },
    ),
    "openai, calls as text": (
        "chat",
        {
            "messages": [
                _USER,
                {"role": "assistant", "content": f"<tool_call>\n{CALL}\n</tool_call>"},
            ],
            "tools": OPENAI_TOOLS,
        },
    ),
    "responses": (
        "prompt and answer",
        {
            "input": [
                *(_USER, {"type": "reasoning", "summary": []}, _ITEM),
                {"type": "function_call_output", "call_id": "x", "output": "ok"},
            ],
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Booked."}],
                }
            ],
            "tools": [{"type": "function", **TOOL}],
            "instructions": "Help.",
        },
    ),
    "anthropic": (
        "chat",
        _anthropic(
            [
                {"role": "assistant", "content": [{"type": "text", "text": "Sure."}, _USE]},
                {"role": "user", "content": [_USED]},
                {"role": "assistant", "content": "Booked."},
            ],
            TOOL,
        ),
    ),
    "bedrock": (
        "chat",
        {
            "messages": [
                {"role": "user", "content": [{"text": ASKED}]},
                {"role": "assistant", "content": [{"toolUse": {"toolUseId": "u", **_USE}}]},
                {
                    "role": "user",
                    "content": [
                        {"toolResult": {"toolUseId": "u", "content": [{"json": {"ok": 1}}]}}
                    ],
                },
            ],
            "toolConfig": {"tools": [{"toolSpec": _BEDROCK_TOOL}]},
        },
    ),
    "ai sdk": (
        "chat",
        [
            _USER,
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool-call",
                        "toolCallId": "v",
                        "toolName": "book_table",
                        "input": {"guests": 4},
                    }
                ],
            },
        ],
    ),
    "gemini": (
        "chat",
        {**_GEMINI, "contents": [*_GEMINI["contents"], _GEMINI_CALL, _GEMINI_RESULT]},
    ),
    "langchain, dicts": (
        "chat",
        [
            {"type": "human", "data": {"content": ASKED}},
            {"type": "ai", "data": {"content": "", "tool_calls": [_LC_CALL]}},
            {"type": "tool", "data": {"content": "ok", "tool_call_id": "q"}},
        ],
    ),
    "langchain, serialised": (
        "prompt and answer",
        {
            "inputs": {"messages": [[_lc("Human", content=ASKED)]]},
            "outputs": {
                "generations": [
                    [
                        {
                            "message": _lc(
                                "AI", content="", additional_kwargs={"tool_calls": [_call(4)]}
                            )
                        }
                    ]
                ]
            },
        },
    ),
    "sharegpt, apigen-mt": (
        "chat",
        {
            "conversations": [
                *(_HUMAN, {"from": "function_call", "value": CALL}),
                {"from": "observation", "value": "ok"},
                {"from": "gpt", "value": "Booked."},
            ],
            "tools": json.dumps([TOOL]),
            "system": "Help.",
        },
    ),
    "hermes": (
        "chat",
        {
            "conversations": [
                {"from": "system", "value": f"Call: <tools> {json.dumps(OPENAI_TOOLS)} </tools>"},
                _HUMAN,
                {
                    "from": "gpt",
                    "value": "<tool_call>\n{'arguments': {'guests': 4}, 'name': 'book_table'}\n"
                    "</tool_call>",
                },
                {"from": "tool", "value": "<tool_response>\nok\n</tool_response>"},
            ]
        },
    ),
    "toolace": (
        "chat",
        {
            "system": f"Functions in JSON that you can invoke:\n{json.dumps([_BLANKS])}. Should",
            "conversations": [
                {"from": "user", "value": ASKED},
                {"from": "assistant", "value": "[Table Booking API(guests=4)]"},
                {"from": "tool", "value": "[]"},
            ],
        },
    ),
    "xlam": (
        "prompt and answer",
        {
            "query": ASKED,
            "answers": f"[{CALL}]",
            "tools": json.dumps([{**TOOL, "parameters": _FLAT}]),
        },
    ),
    "glaive": (
        "glaive",
        {
            "system": f"SYSTEM: You have functions. Use them if required -\n{json.dumps(TOOL)}",
            "chat": f"USER: {ASKED}\n\n\nASSISTANT: <functioncall> "
            '{"name": "book_table", "arguments": \'{"guests": 4}\'} <|endoftext|>\n\n\n'
            'FUNCTION RESPONSE: {"ok": 1}\n\n\nASSISTANT: Booked. <|endoftext|>',
        },
    ),
    "when2call": (
        "When2Call",
        {
            "question": ASKED,
            "correct_answer": "tool_call",
            "answers": {"direct": "No.", "tool_call": f"<TOOLCALL>[{CALL}]</TOOLCALL>"},
            "tools": [json.dumps(TOOL)],
        },
    ),
    "nestful": (
        "prompt and answer",
        {
            "input": ASKED,
            "output": [
                {"name": "book_table", "arguments": {"guests": 4}, "label": "$var_1"},
                {"name": "mail", "arguments": {"text": "$var_1.id$"}, "label": "$var_2"},
                {"name": "var_result", "arguments": {"a": "$var_1$"}},
            ],
            "tools": [TOOL],
        },
    ),
    "acebench": (
        "ACEBench",
        {
            "question": "user: A table.\nsystem: For how many?\nuser: 4\n",
            "function": [TOOL],
            "ground_truth": {"book_table_1": {"guests": 4}, "book_table_2": {"guests": 2}},
            "time": "",
        },
    ),
    "tau-bench": (
        "chat",
        {
            "task_id": 0,
            "reward": 1.0,
            "info": {"task": {}},
            "traj": [
                {"role": "system", "content": "Policy."},
                _USER,
                _answer(_call(4)),
                _result("c1"),
            ],
        },
    ),
    "tau2-bench": (
        "several",
        {
            "simulations": [
                {
                    "messages": [
                        _USER,
                        _answer({"id": "1", **json.loads(CALL), "requestor": "assistant"}),
                    ]
                }
            ]
        },
    ),
    "trl": (
        "prompt and answer",
        {"prompt": [_USER], "completion": [_answer(_call(4))], "tools": OPENAI_TOOLS},
    ),
    "trl, texts": (
        "prompt and answer",
        {"prompt": ASKED, "completion": "[book_table(guests=4)]", "tools": OPENAI_TOOLS},
    ),
    "trl, preference": (
        "chat",
        {"chosen": [_USER, _answer(_call(4))], "rejected": [_USER], "tools": OPENAI_TOOLS},
    ),
    "swift": (
        "chat",
        [_USER, {"role": "tool_call", "content": CALL}, {"role": "tool_response", "content": "ok"}],
    ),
    "pair": ("request and response", {"request": _BODY, "response": _COMPLETION}),
    "pair, responses": (
        "request and response",
        {
            "request": {"input": ASKED, "tools": [{"type": "function", **TOOL}]},
            "response": {"object": "response", "error": None, "output": [_ITEM]},
        },
    ),
    "pair, anthropic": (
        "request and response",
        {
            "request": _anthropic([], TOOL),
            "response": {"type": "message", "role": "assistant", "content": [_USE]},
        },
    ),
    "pair, gemini": (
        "request and response",
        {"request": _GEMINI, "response": {"candidates": [{"content": _GEMINI_CALL}]}},
    ),
    "http": (
        "request and response",
        {
            "method": "POST",
            "path": "/v1/chat/completions",
            "body": json.dumps(_BODY),
            "response": {"status": 200, "body": json.dumps(_COMPLETION)},
        },
    ),
    "har": (
        "several",
        {
            "log": {
                "entries": [
                    {
                        "request": {
                            "method": "POST",
                            "url": "https://gateway.example/v1",
                            "postData": {"mimeType": "json", "text": json.dumps(_BODY)},
                        },
                        "response": {
                            "content": {"mimeType": "json", "text": json.dumps(_COMPLETION)}
                        },
                    }
                ]
            }
        },
    ),
}
"""Name -> the form of the record, and the record."""
