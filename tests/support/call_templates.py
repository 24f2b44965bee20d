"""Chat templates that write calls, in the shapes that models have: written for tests.

Marks are those of the models, everything around them is not.
"""

from __future__ import annotations

from chat_templates import IM, TemplateShape

_PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
_TOOLS = "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
_HERMES_CALLS = (
    "{% for c in m.tool_calls or [] %}{{ '\n' if m.content or not loop.first }}"
    '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": '
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}"
)
HERMES = TemplateShape(
    _TOOLS + "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>\n"
    "{{ m.content }}\n</tool_response><|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    + _HERMES_CALLS
    + "<|im_end|>\n{% endif %}{% endfor %}"
    + _PROMPT,
    (*IM, "<tool_call>", "</tool_call>"),
)
"""Qwen2.5's shape: results are the same behind words and behind calls."""
QWEN3 = HERMES._replace(
    source=HERMES.source.replace(
        "}}\n{{ m.content }}",
        "}}\n{% if m.role == 'assistant' and not loop.last %}"
        "{{ m.content.split('</think>')[-1].lstrip('\n') }}"
        "{% else %}{{ m.content }}{% endif %}",
    )
)
"""Qwen3's shape: a thought is dropped once something follows it."""
KIMI = TemplateShape(
    "{% if tools %}<|im_system|>tools<|im_middle|>{{ tools | tojson }}<|im_end|>{% endif %}"
    "{% for m in messages %}"
    "<|im_{{ 'system' if m.role == 'tool' else m.role }}|>{{ m.role }}<|im_middle|>"
    "{% if m.role == 'tool' %}## Return of {{ m.tool_call_id }}\n{% endif %}{{ m.content }}"
    "{% if m.tool_calls %}<|tool_calls_section_begin|>{% for c in m.tool_calls %}"
    "<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>"
    "{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}"
    "<|tool_calls_section_end|>{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif %}",
    (
        *("[PAD]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>"),
        *("<|im_middle|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    ),
)
"""Kimi-K2's shape: a call is written by its id, which results repeat."""
MISTRAL3 = TemplateShape(
    "{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]"
    "{% endif %}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }}[/INST]"
    "{% elif m.role == 'system' %}{{ raise_exception('no system') }}"
    "{% elif m.tool_calls %}[TOOL_CALLS] [{% for c in m.tool_calls %}"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, '
    '"id": "{{ c.id }}"}{{ ", " if not loop.last }}{% endfor %}]{{ eos_token }}'
    "{% elif m.role == 'tool' %}{% set before = messages[loop.index0 - 1] %}"
    "{% if not before.tool_calls and before.role != 'tool' %}"
    "{{ raise_exception('results need calls') }}{% endif %}"
    '[TOOL_RESULTS] {"content": {{ m.content | tojson }}, "call_id": "{{ m.tool_call_id }}"}'
    "[/TOOL_RESULTS]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
    (
        *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
        *("[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    ),
    "</s>",
    "<s>",
)
"""Mistral v3's shape: results stand behind calls alone, a blank before an answer."""
HARMONY = TemplateShape(
    "{% if tools %}<|start|>developer<|message|>{{ tools | tojson }}<|end|>{% endif %}"
    "{% set at = namespace(name='') %}{% for m in messages %}"
    "{% if m.role == 'tool' %}{% if not at.name %}{{ raise_exception('no call') }}{% endif %}"
    "<|start|>functions.{{ at.name }} to=assistant<|channel|>commentary<|message|>"
    "{{ m.content | tojson }}<|end|>"
    "{% elif m.role != 'assistant' %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>"
    "{% elif '<|channel|>' in m.content %}{{ raise_exception('channel in content') }}"
    "{% elif m.tool_calls %}{% set f = m.tool_calls[0].function %}{% set at.name = f.name %}"
    "<|start|>assistant to=functions.{{ f.name }}<|channel|>commentary json<|message|>"
    "{{ f.arguments | tojson }}<|call|>"
    "{% else %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}"
    "{{ '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}",
    (
        *("<|endoftext|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>"),
        *("<|call|>", "<|return|>"),
    ),
    "<|return|>",
)
"""gpt-oss's shape: answers have channels, which their own text may not spell."""
GLM = TemplateShape(
    "[gMASK]<sop>{% if tools %}<|system|>\n{{ tools | tojson }}{% endif %}{% for m in messages %}"
    "{% if m.role == 'tool' %}<|observation|>\n<tool_response>\n{{ m.content }}\n"
    "</tool_response>{% else %}<|{{ m.role }}|>\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}\n<tool_call>{{ c.function.name }}\n"
    "{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
    "<arg_value>{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>"
    "{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    (
        *("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"),
        *("<|observation|>", "<tool_call>", "</tool_call>"),
    ),
    "<|endoftext|>",
)
"""GLM's shape: no end of turn, calls as keys and values."""
LLAMA = TemplateShape(
    "{{ bos_token }}{% if tools %}<|start_header_id|>system<|end_header_id|>\n\n"
    "{{ tools | tojson }}<|eot_id|>{% endif %}{% for m in messages %}<|start_header_id|>"
    "{{ 'ipython' if m.role == 'tool' else m.role }}<|end_header_id|>\n\n"
    "{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one call') }}"
    '{% endif %}{"name": "{{ m.tool_calls[0].function.name }}", "parameters": '
    "{{ m.tool_calls[0].function.arguments | tojson }}}"
    "{% else %}{{ m.content }}{% endif %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
    (
        *("<|end_of_text|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
        "<|eot_id|>",
    ),
    "<|eot_id|>",
    "<|begin_of_text|>",
)
"""Llama 3.1's shape: one call in an answer, as bare JSON."""

CALL_SHAPES = {
    "hermes_calls": HERMES,
    "kimi_k2_calls": KIMI,
    "mistral_calls": MISTRAL3,
    "harmony_calls": HARMONY,
    "glm_calls": GLM,
    "llama_json_calls": LLAMA,
}
"""Handler of a form -> a template that writes it."""
UNREAD = HERMES._replace(
    source=HERMES.source.replace("<tool_call>\n{", "<call-me>{").replace("}\n</tool_call>", "}</>")
)
"""Writes calls that no handler reads."""
PARTS = TemplateShape(
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% for part in m.content %}{{ part.text }}{% endfor %}<|im_end|>\n{% endfor %}" + _PROMPT
)
"""SmolVLM's shape: contents are lists of parts."""
