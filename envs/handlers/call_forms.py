"""Call forms of chat models: one record a form, which one parser and one writer read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_HOLE = re.compile(r"\{(name|id|number|key|type|value|arguments|object|list|lines|python)\}")


@dataclass(frozen=True, kw_only=True)
class CallForm:
    """Call form: how a model's chat template writes calls.

    Holes of `call`: {name}; {id}, {number}: of the call; {arguments}: a JSON object, or arguments
    as `argument` writes them; {object}: the whole call as a JSON object with `keys`; {list} and
    {lines}: all calls, as a JSON list or an object a line; {python}: as a list in Python. Of
    `argument`: {key}, {value}, {type}. Blanks of a template may be missing or others in a text.
    """

    name: str
    call: str
    argument: str = ""
    also: tuple[str, ...] = ()  # other ways to write a call, which are read
    opens: str = ""  # around all calls
    closes: str = ""
    between: str = ""  # calls
    keys: tuple[str, ...] = ("name", "arguments")  # of a call's object; (): its one key is the name
    types: tuple[str, str] | None = None  # what {type} says of a text and of anything else
    quote: str = ""  # around texts where arguments are {key:value}, without any other quotes
    cdata: bool = False  # whether texts may stand in XML's <![CDATA[...]]>

    @cached_property
    def ways(self) -> tuple[list[str], ...]:
        """The ways to write a call, in parts: literal, hole, literal, ..., literal."""
        return tuple(_HOLE.split(each) for each in (self.call, *self.also))

    @cached_property
    def openings(self) -> tuple[list[str], ...]:
        """The ways in which calls open: those of `ways`, and behind the mark around them all."""
        return (_HOLE.split(self.opens + self.call), *self.ways) if self.opens else self.ways

    @cached_property
    def argument_parts(self) -> list[str]:
        """The way to write an argument, in parts."""
        return _HOLE.split(self.argument)

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """The words that open calls, longest first; "" where a call may open with its name."""
        texts = [*([self.opens] if self.opens else []), *(way[0] for way in self.ways)]
        return tuple(sorted({(each.split() or [""])[0] for each in texts}, key=len, reverse=True))


_XML = "<parameter={key}>\n{value}\n</parameter>\n"
_INVOKE = '<parameter name="{key}">{value}</parameter>\n'
_DSML = '<｜DSML｜parameter name="{key}" string="{type}">{value}</｜DSML｜parameter>\n'
_DSML_CALL = '<｜DSML｜invoke name="{name}">\n{arguments}</｜DSML｜invoke>\n'
_DEEPSEEK = {"opens": "<｜tool▁calls▁begin｜>", "closes": "<｜tool▁calls▁end｜>"}

CALL_FORMS: dict[str, CallForm] = {
    form.name: form
    for form in (
        # Qwen2.5, Qwen3, Hermes, Granite 4, Arch-Function, SmolLM3, Bielik, Reka
        CallForm(name="hermes_calls", call="<tool_call>\n{object}\n</tool_call>", between="\n"),
        # Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step 3.5
        CallForm(
            name="qwen_xml_calls",
            call="<tool_call>\n<function={name}>\n{arguments}</function>\n</tool_call>",
            also=("<function={name}>\n{arguments}</function>",),
            argument=_XML,
            between="\n",
        ),
        CallForm(
            name="seed_calls",
            call="<seed:tool_call>\n<function={name}>\n{arguments}</function>\n</seed:tool_call>",
            argument="<parameter={key}>{value}</parameter>\n",
            between="\n",
        ),
        # GLM-4.5 to 4.7, Ling, Laguna, Spark
        CallForm(
            name="glm_calls",
            call="<tool_call>{name}\n{arguments}</tool_call>",
            argument="<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n",
            between="\n",
        ),
        CallForm(
            name="hunyuan_calls",  # Hy3
            opens="<tool_calls:opensource>\n",
            call="<tool_call:opensource>{name}<tool_sep:opensource>\n{arguments}"
            "</tool_call:opensource>\n",
            argument="<arg_key:opensource>{key}</arg_key:opensource>\n"
            "<arg_value:opensource>{value}</arg_value:opensource>\n",
            closes="</tool_calls:opensource>",
        ),
        CallForm(
            name="deepseek_v3_calls",  # and R1
            call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n"
            "```json\n{arguments}\n```<｜tool▁call▁end｜>",
            between="\n",
            **_DEEPSEEK,
        ),
        CallForm(
            name="deepseek_v31_calls",
            call="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>",
            **_DEEPSEEK,
        ),
        CallForm(
            name="deepseek_v32_calls",
            opens="<｜DSML｜function_calls>\n",
            call=_DSML_CALL,
            argument=_DSML,
            closes="</｜DSML｜function_calls>",
            types=("true", "false"),
        ),
        CallForm(
            name="deepseek_v4_calls",
            opens="<｜DSML｜tool_calls>\n",
            call=_DSML_CALL,
            argument=_DSML,
            closes="</｜DSML｜tool_calls>",
            types=("true", "false"),
        ),
        CallForm(
            name="kimi_k2_calls",
            opens="<|tool_calls_section_begin|>",
            call="<|tool_call_begin|>functions.{name}:{number}"
            "<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
            also=(
                "<|tool_call_begin|>{name}:{id}<|tool_call_argument_begin|>{arguments}"
                "<|tool_call_end|>",
            ),
            closes="<|tool_calls_section_end|>",
        ),
        CallForm(
            name="kimi_k3_calls",
            opens="<|open|>tools<|sep|>",
            call='<|open|>call tool="{name}" index="{number}"<|sep|>{arguments}'
            "<|close|>call<|sep|>",
            argument='<|open|>argument key="{key}" type="{type}"<|sep|>{value}'
            "<|close|>argument<|sep|>",
            closes="<|close|>tools<|sep|>",
            types=("string", "json"),
        ),
        CallForm(
            name="harmony_calls",  # gpt-oss
            call="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
            "{arguments}",
            also=(
                "<|channel|>commentary to=functions.{name}<|message|>{arguments}",
                "<|channel|>commentary to=functions.{name} json<|message|>{arguments}",
                "to=functions.{name}<|channel|>commentary json<|message|>{arguments}",
                "to=functions.{name}<|channel|>commentary <|constrain|>json<|message|>{arguments}",
            ),
            between="<|call|><|start|>assistant",  # the model's end of a call, then the next
        ),
        CallForm(name="lfm2_calls", call="<|tool_call_start|>{python}<|tool_call_end|>"),
        CallForm(name="minimax_m1_calls", call="<tool_calls>\n{lines}\n</tool_calls>"),
        CallForm(
            name="minimax_m2_calls",
            opens="<minimax:tool_call>\n",
            call='<invoke name="{name}">\n{arguments}</invoke>\n',
            argument=_INVOKE,
            closes="</minimax:tool_call>",
        ),
        CallForm(
            name="muse_calls",
            opens="<atem:function_calls>\n",
            call='<atem:invoke name="{name}">\n{arguments}</atem:invoke>\n',
            argument='<atem:parameter name="{key}">{value}</atem:parameter>\n',
            closes="</atem:function_calls>",
        ),
        CallForm(
            name="minicpm_calls",
            call='<function name="{name}">{arguments}</function>',
            argument='<param name="{key}">{value}</param>',
            cdata=True,
            between="\n",
        ),
        CallForm(
            name="gemma4_calls",
            call="<|tool_call>call:{name}{arguments}<tool_call|>",
            quote='<|"|>',
        ),
        CallForm(
            name="function_gemma_calls",
            call="<start_function_call>call:{name}{arguments}<end_function_call>",
            quote="<escape>",
        ),
        # Granite 3, Phi-4-mini
        CallForm(name="granite3_calls", call="<|tool_call|>{list}"),
        CallForm(name="granite_20b_calls", call="<function_call> {object}", between="\n"),
        CallForm(name="functools_calls", call="functools{list}"),  # Phi-4
        CallForm(name="functionary31_calls", call="<function={name}>{arguments}</function>"),
        CallForm(
            name="functionary32_calls",
            call=">>>{name}\n{arguments}",
            also=("{name}\n{arguments}",),  # the first one's mark stands in the prompt
        ),
        # Nemotron-Nano 2
        CallForm(name="nemotron_calls", call="<TOOLCALL>{list}</TOOLCALL>"),
        # Apriel, Hunyuan A13B
        CallForm(name="apriel_calls", call="<tool_calls>{list}</tool_calls>"),
        CallForm(name="apertus_calls", call="<|tools_prefix|>{list}<|tools_suffix|>", keys=()),
        CallForm(
            name="command_r7b_calls",
            call="<|START_ACTION|>{list}<|END_ACTION|>",
            keys=("tool_name", "parameters"),
        ),
        CallForm(
            name="command_r_calls",
            call="Action: ```json\n{list}\n```",
            keys=("tool_name", "parameters"),
        ),
        CallForm(
            name="react_calls", call="Action: {name}\nAction Input: {arguments}", between="\n"
        ),
        CallForm(name="internlm_calls", call="<|action_start|><|plugin|>\n{object}<|action_end|>"),
        CallForm(
            name="gigachat_calls",
            call="<|function_call|>{object}",
            also=("call<|role_sep|>\n{object}",),
            between="<|message_sep|>\n\n",
        ),
        CallForm(
            name="solar_calls",
            opens="<|tool_calls|>",
            call="<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{arguments}"
            "<|tool_call:end|>",
            closes="<|calls|>",
        ),
    )
}
"""Name -> the form; those of BFCL, bare JSON, Llama, Mistral and LFM2 are read by their handlers."""
