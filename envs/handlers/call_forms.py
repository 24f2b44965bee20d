"""Call forms of chat models: a table of records, for one parser and one writer."""

# ruff: noqa: RUF001  (the bars of DeepSeek's marks are meant)
from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_HOLE = re.compile(r"\{(name|id|number|key|type|value|arguments|object|list|lines|python)\}")


@dataclass(frozen=True)
class CallForm:
    """Form in which a model's chat template writes calls.

    Holes of `call`: {name}; {id}, {number}: of the call; {arguments}: a JSON object, or arguments
    as `argument` writes them; {object}: the whole call as a JSON object with `keys`; {list} and
    {lines}: all calls, as a JSON list or an object a line; {python}: as a list in Python. Of
    `argument`: {key}, {value}, {type}. Blanks of a template may be missing or others in a text.
    """

    name: str
    call: str
    argument: str = ""
    also: tuple[str, ...] = ()  # other ways to write a call, which are read
    around: str = "{calls}"  # what stands around all calls
    between: str = ""  # calls
    keys: tuple[str, ...] = ("name", "arguments")  # of a call's object; (): its one key is the name
    types: tuple[str, str] | None = None  # what {type} says of a text and of anything else
    quote: str = ""  # around texts where arguments are {key:value}, without any other quotes
    cdata: bool = False  # whether texts may stand in XML's <![CDATA[...]]>
    nested: bool = False  # whether lists and objects are written as arguments in arguments
    alone: bool = False  # whether nothing but calls may stand in a text

    @cached_property
    def ways(self) -> tuple[list[str], ...]:
        """Ways to write a call, each in parts: literal, hole, literal, ..., literal."""
        return tuple(_HOLE.split(way) for way in (self.call, *self.also))

    @cached_property
    def opens(self) -> str:
        """Mark that opens all calls together; "" if each call has marks."""
        return self.around.partition("{calls}")[0]

    @cached_property
    def argument_parts(self) -> list[str]:
        """Way to write an argument, in parts."""
        return _HOLE.split(self.argument)

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """Words that open calls, longest first."""
        texts = [self.opens, *(way[0] for way in self.ways)]
        words = {word for text in texts for word in text.split()[:1]}
        return tuple(sorted(words, key=len, reverse=True))


_FUNCTION = "<function={name}>\n{arguments}</function>"
_PARAMETER = "<parameter={key}>\n{value}\n</parameter>\n"
_KEYED = "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"
_DEEPSEEK = "<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>"
_MINIMAX = "]<]minimax[>["  # before each tag of M3's
_KIMI = "<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
_HARMONY = "<|channel|>commentary to=functions.{name}"
_MISTRAL = tuple(
    f"[TOOL_CALLS]{{name}}{part}{{arguments}}" for part in ("[ARGS]", "[CALL_ID]{id}[ARGS]", "")
)
_FOR_R7B = ("tool_name", "parameters")

_FORMS = (
    # Qwen2.5, Qwen3, Hermes, Granite 4, Arch-Function, SmolLM3, Bielik, Reka
    CallForm("hermes_calls", "<tool_call>\n{object}\n</tool_call>", between="\n"),
    # Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step 3.5
    *(
        CallForm(f"{name}_calls", f"<{tag}>\n{_FUNCTION}\n</{tag}>", argument, also, between="\n")
        for name, tag, argument, also in (
            ("qwen_xml", "tool_call", _PARAMETER, (_FUNCTION,)),
            ("seed", "seed:tool_call", "<parameter={key}>{value}</parameter>\n", ()),
        )
    ),
    # GLM-4.5 to 4.7, Ling, Laguna, Spark
    CallForm("glm_calls", "<tool_call>{name}\n{arguments}</tool_call>", _KEYED, between="\n"),
    CallForm(
        "hunyuan_calls",  # Hy3
        "<tool_call:opensource>{name}<tool_sep:opensource>\n{arguments}</tool_call:opensource>\n",
        _KEYED.replace(">", ":opensource>"),
        around="<tool_calls:opensource>\n{calls}</tool_calls:opensource>",
    ),
    # DeepSeek, R1 like V3
    CallForm(
        "deepseek_v3_calls",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>",
        around=_DEEPSEEK,
        between="\n",
    ),
    CallForm(
        "deepseek_v31_calls",
        "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>",
        around=_DEEPSEEK,
    ),
    *(
        CallForm(
            f"{name}_calls",
            f'<{tag}invoke name="{{name}}">\n{{arguments}}</{tag}invoke>\n',
            f'<{tag}parameter name="{{key}}"{kind}>{{value}}</{tag}parameter>\n',
            around=f"<{around}>\n{{calls}}</{around}>",
            types=("true", "false"),
        )
        for name, tag, kind, around in (
            ("deepseek_v32", "｜DSML｜", ' string="{type}"', "｜DSML｜function_calls"),
            ("deepseek_v4", "｜DSML｜", ' string="{type}"', "｜DSML｜tool_calls"),
            ("minimax_m2", "", "", "minimax:tool_call"),
            ("muse", "atem:", "", "atem:function_calls"),
        )
    ),
    CallForm(
        "minimax_m3_calls",
        f'{_MINIMAX}<invoke name="{{name}}">{{arguments}}{_MINIMAX}</invoke>\n',
        f"{_MINIMAX}<{{key}}>{{value}}{_MINIMAX}</{{key}}>",
        around=f"{_MINIMAX}<tool_call>\n{{calls}}{_MINIMAX}</tool_call>",
        nested=True,
    ),
    CallForm(
        "kimi_k2_calls",
        f"<|tool_call_begin|>functions.{{name}}:{{number}}{_KIMI}",
        also=(f"<|tool_call_begin|>{{name}}:{{id}}{_KIMI}",),
        around="<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>",
    ),
    CallForm(
        "kimi_k3_calls",
        '<|open|>call tool="{name}" index="{number}"<|sep|>{arguments}<|close|>call<|sep|>',
        '<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>',
        around="<|open|>tools<|sep|>{calls}<|close|>tools<|sep|>",
        types=("string", "json"),
    ),
    CallForm(
        "harmony_calls",  # gpt-oss
        f"{_HARMONY} <|constrain|>json<|message|>{{arguments}}",
        also=(
            *(f"{_HARMONY}{kind}<|message|>{{arguments}}" for kind in (" json", "")),
            "to=functions.{name}<|channel|>commentary json<|message|>{arguments}",
            "to=functions.{name}<|channel|>commentary <|constrain|>json<|message|>{arguments}",
        ),
        between="<|call|><|start|>assistant",  # the model's end of a call, and the next message
    ),
    # a tokenizer that drops the mark leaves the list
    CallForm("mistral_calls", "[TOOL_CALLS]{list}", also=(*_MISTRAL, "{list}")),
    CallForm("mistral_named_calls", _MISTRAL[0], also=(*_MISTRAL[1:], "[TOOL_CALLS]{list}")),
    CallForm("lfm2_calls", "<|tool_call_start|>{python}<|tool_call_end|>"),
    CallForm("minimax_m1_calls", "<tool_calls>\n{lines}\n</tool_calls>"),
    CallForm(
        "minicpm_calls",
        '<function name="{name}">{arguments}</function>',
        '<param name="{key}">{value}</param>',
        between="\n",
        cdata=True,
    ),
    CallForm("gemma4_calls", "<|tool_call>call:{name}{arguments}<tool_call|>", quote='<|"|>'),
    CallForm(
        "function_gemma_calls",
        "<start_function_call>call:{name}{arguments}<end_function_call>",
        quote="<escape>",
    ),
    CallForm("granite3_calls", "<|tool_call|>{list}"),  # Phi-4-mini too
    CallForm("granite_20b_calls", "<function_call> {object}", between="\n"),
    CallForm("functools_calls", "functools{list}"),  # Phi-4
    CallForm("functionary31_calls", "<function={name}>{arguments}</function>"),
    # the first one's mark stands in the prompt
    CallForm("functionary32_calls", ">>>{name}\n{arguments}", also=("{name}\n{arguments}",)),
    CallForm("nemotron_calls", "<TOOLCALL>{list}</TOOLCALL>"),  # Nemotron-Nano 2
    CallForm("apriel_calls", "<tool_calls>{list}</tool_calls>"),  # Hunyuan A13B too
    CallForm("apertus_calls", "<|tools_prefix|>{list}<|tools_suffix|>", keys=()),
    CallForm("command_r7b_calls", "<|START_ACTION|>{list}<|END_ACTION|>", keys=_FOR_R7B),
    CallForm("command_r_calls", "Action: ```json\n{list}\n```", keys=_FOR_R7B),
    CallForm("react_calls", "Action: {name}\nAction Input: {arguments}", between="\n"),
    CallForm("internlm_calls", "<|action_start|><|plugin|>\n{object}<|action_end|>"),
    CallForm(
        "gigachat_calls",
        "<|function_call|>{object}",
        also=("<|role_sep|>\n{object}",),
        between="<|message_sep|>\n\n",
    ),
    CallForm(
        "solar_calls",
        "<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{arguments}"
        "<|tool_call:end|>",
        around="<|tool_calls|>{calls}<|calls|>",
    ),
    CallForm("json_calls", "{list}", also=("```json\n{list}\n```", "```\n{list}\n```"), alone=True),
    CallForm(
        "llama_json_calls",
        "{object}",
        also=("<|python_tag|>{object}", "{list}"),
        between="; ",
        keys=("name", "parameters"),
        alone=True,
    ),
    CallForm(
        "llama_pythonic_calls",
        "{python}",
        also=("<|python_start|>{python}<|python_end|>", "<|python_tag|>{python}"),
        alone=True,
    ),
)
CALL_FORMS = {form.name: form for form in _FORMS}
"""Name -> its form; those of BFCL and OpenAI's messages have handlers of their own."""
