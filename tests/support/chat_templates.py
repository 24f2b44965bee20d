"""Chat templates in the shapes that models have, and awkward ones: written for tests."""

from __future__ import annotations

from typing import Any, NamedTuple

from tiny_models import CHATML, FORGETS_THOUGHTS, STRICT_TURNS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

IM = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


class TemplateShape(NamedTuple):
    """A template, the special tokens of its tokenizer, and which of them ends texts."""

    source: str
    special: tuple[str, ...] = IM
    eos: str | None = "<|im_end|>"
    bos: str | None = None

    def tokenizer(self) -> Any:
        """Return a tokenizer with one token a byte; BOS before every text where there is one."""
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocabulary = {token: index for index, token in enumerate((*self.special, *alphabet))}
        backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        if self.bos is not None:
            pair = [(self.bos, vocabulary[self.bos])]
            backend.post_processor = processors.TemplateProcessing(
                single=f"{self.bos} $A", pair=f"{self.bos} $A $B", special_tokens=pair
            )
        fast: Any = PreTrainedTokenizerFast
        tokenizer = fast(
            tokenizer_object=backend,
            eos_token=self.eos,
            bos_token=self.bos,
            pad_token=self.special[0],
            additional_special_tokens=list(self.special[1:]),
        )
        tokenizer.chat_template = self.source
        return tokenizer


_PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
_PLAIN = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
)

QWEN25 = TemplateShape(
    "{%- if tools %}{{ '<|im_start|>system\\nYou are helpful.\\n\\n# Tools\\n<tools>' }}"
    "{%- for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}"
    "{{ '\\n</tools>\\n<tool_call>\\n{\"name\": ...}\\n</tool_call><|im_end|>\\n' }}"
    "{%- elif messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are helpful."
    "<|im_end|>\\n' }}{% endif -%}" + CHATML.partition("{% endif -%}")[2]
)
QWEN3 = TemplateShape(FORGETS_THOUGHTS)
LLAMA3 = TemplateShape(
    "{{ bos_token }}{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"
    "{{ 'Today: 26 Jul 2024\\n\\n' }}"
    "{%- if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% endif -%}"
    "{%- if tools %}{% for tool in tools %}{{ tool | tojson(indent=4) + '\\n\\n' }}{% endfor %}"
    "{% endif -%}{{ '<|eot_id|>' }}"
    "{%- for m in messages %}{% if m.role != 'system' %}"
    "{%- set role = 'ipython' if m.role == 'tool' else m.role %}"
    "{{ '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' }}"
    "{{ m.content | trim + '<|eot_id|>' }}"
    "{% endif %}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
    "{% endif %}",
    (
        *("<|end_of_text|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
        *("<|eot_id|>", "<|eom_id|>"),
    ),
    "<|end_of_text|>",
    "<|begin_of_text|>",
)
MISTRAL = TemplateShape(
    "{{ bos_token }}{%- for m in messages %}{% if m.role == 'user' %}"
    "{%- if tools and loop.last %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) + "
    "'[/AVAILABLE_TOOLS]' }}{% endif %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{%- elif m.role == 'assistant' %}{{ m.content + eos_token }}"
    "{%- elif m.role == 'tool' %}{{ raise_exception('results need calls') }}"
    "{%- else %}{{ raise_exception('only user and assistant') }}{% endif %}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '' }}{% endif %}",
    ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    "</s>",
    "<s>",
)
GEMMA = TemplateShape(
    "{{ bos_token }}{%- if messages[0].role == 'system' %}{{ raise_exception('no system') }}"
    "{% endif -%}{%- for m in messages %}"
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif -%}{%- set role = 'model' if m.role == 'assistant' else m.role %}"
    "{{ '<start_of_turn>' + role + '\\n' + m.content | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    ("<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
    "<eos>",
    "<bos>",
)
GLM = TemplateShape(
    "{{ '[gMASK]<sop>' }}{%- if tools %}{{ '<|system|>\\n' }}{% for tool in tools %}"
    "{{ (tool | tojson) + '\\n' }}{% endfor %}{% endif -%}"
    "{%- for m in messages %}"
    "{%- set role = 'observation' if m.role == 'tool' else m.role %}"
    "{{ '<|' + role + '|>\\n' + m.content }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}",
    (
        *("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"),
        "<|observation|>",
    ),
    "<|endoftext|>",
)
GPT_OSS = TemplateShape(
    "{{ '<|start|>system<|message|>You are helpful.<|end|>' }}"
    "{%- if tools %}{{ '<|start|>developer<|message|>' + (tools | tojson) + '<|end|>' }}"
    "{% endif -%}"
    "{%- for m in messages %}"
    "{%- if m.role == 'assistant' and m.tool_calls %}{%- set f = m.tool_calls[0].function %}"
    "{{ '<|start|>assistant to=functions.' + f.name + '<|channel|>commentary json<|message|>' + "
    "(f.arguments | tojson) + '<|call|>' }}"
    "{%- elif m.role == 'assistant' %}{{ '<|start|>assistant<|channel|>final<|message|>' + "
    "m.content + ('<|return|>' if loop.last else '<|end|>') }}"
    "{%- elif m.role == 'tool' %}{{ '<|start|>functions.f to=assistant<|channel|>commentary"
    "<|message|>' + m.content + '<|end|>' }}"
    "{%- else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}"
    "{% endfor %}{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}",
    (
        *("<|endoftext|>", "<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"),
        "<|call|>",
    ),
    "<|return|>",
)
SMOLLM2 = TemplateShape(
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful AI assistant.<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}" + _PROMPT
)
SHAPES = {
    "Qwen2.5": QWEN25,
    "Qwen3": QWEN3,
    "Llama 3": LLAMA3,
    "Mistral": MISTRAL,
    "Gemma": GEMMA,
    "GLM": GLM,
    "SmolLM2": SMOLLM2,
}
"""Shapes of models' templates that are sound, each in its own way."""

ENDS = {
    "GLM": (GLM, ("<|endoftext|>", "<|user|>", "<|observation|>")),
    "gpt-oss": (GPT_OSS, ("<|return|>", "<|endoftext|>", "<|call|>")),
    "Llama 3.1": (LLAMA3, ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")),
    "Qwen3": (QWEN3, ("<|im_end|>", "<|endoftext|>")),
    "Mistral": (MISTRAL, ("</s>",)),
}
"""Shape of a family's template, with the ends that its models list in generation_config.json."""

# Thinks where nothing forbids it, and knows no other argument.
SWITCHED = TemplateShape(
    CHATML.replace(
        "assistant\\n' }}{% endif",
        "assistant\\n' + ('<think>\\n\\n</think>\\n\\n' "
        "if enable_thinking is defined and not enable_thinking else '') }}{% endif",
    )
)

_CHATML_PROMPT = "{%- if add_generation_prompt %}"
AWKWARD: dict[str, tuple[TemplateShape, str, str]] = {
    "no generation prompt": (
        TemplateShape(CHATML.partition(_CHATML_PROMPT)[0]),
        "fault",
        "add_generation_prompt changes nothing",
    ),
    "words in capitals": (
        TemplateShape(_PLAIN.replace("m.content", "(m.content | upper)") + _PROMPT),
        "fault",
        "the assistant's words are changed",
    ),
    "words as HTML": (
        TemplateShape(_PLAIN.replace("m.content", "(m.content | e)") + _PROMPT),
        "fault",
        "the assistant's words are changed",
    ),
    "closing mark of another model": (
        TemplateShape((_PLAIN + _PROMPT).replace("<|im_end|>", "<|eot_id|>")),
        "fault",
        "which is no token of the tokenizer (10 pieces)",
    ),
    "no end at all": (
        TemplateShape(_PLAIN.replace("<|im_end|>", "") + _PROMPT, eos=None),
        "fault",
        "no action could ever end",
    ),
    "tools without parameters": (
        TemplateShape(CHATML.replace("(tool | tojson)", "tool.function.name")),
        "fault",
        "tools without their parameter names",
    ),
    "only one of two results": (
        TemplateShape(
            CHATML.replace(
                "'\\n<tool_response>\\n' + m.content",
                "'\\n<tool_response>\\n' + ("
                "m.content if loop.index0 and messages[loop.index0 - 1].role != 'tool' else '')",
            )
        ),
        "fault",
        "the second one is not rendered",
    ),
    "no begin of text": (
        LLAMA3._replace(source=LLAMA3.source.replace("{{ bos_token }}", "")),
        "fault",
        "prompts begin without '<|begin_of_text|>'",
    ),
    "begin of text twice": (
        LLAMA3._replace(source="{{ bos_token }}" + LLAMA3.source),
        "fault",
        "prompts begin with '<|begin_of_text|>' twice",
    ),
    "a thought opened for the model": (
        TemplateShape(
            CHATML.replace("assistant\\n' }}{% endif", "assistant\\n<think>\\n' }}{% endif")
        ),
        "note",
        "the prompt opens the answer with '<think>\\n'",
    ),
    "today's date": (
        TemplateShape(
            "{{ '<|im_start|>system\\n' + strftime_now('%d') + '<|im_end|>\\n' }}" + CHATML
        ),
        "note",
        "today's date",
    ),
    "messages counted": (
        TemplateShape("{{ messages | length }}" + _PLAIN + _PROMPT),
        "note",
        "the history is rewritten everywhere",
    ),
    "strict turns": (
        TemplateShape(STRICT_TURNS),
        "note",
        "the template has no tool role",
    ),
}
"""Awkward template -> the template, how grave it is, and what has to be said of it."""
