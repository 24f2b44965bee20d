"""Loading a chat template: of a file or the tokenizer, with the model's ends and arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2.exceptions import TemplateError

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.config.template_kwargs import FLAG, parse_template_kwargs
from fctncalling.algorithms.policy.answer_ends import listed_ends
from fctncalling.algorithms.policy.chat_template import ChatTemplate


def load_template(
    tokenizer: Any, path: str | None = None, model: Any = None, kwargs: str | None = None
) -> ChatTemplate:
    """Load the chat template of a file, or of the tokenizer, else a plain one.

    A file's becomes the tokenizer's own, so that it is saved with it. model: a folder, name or
    loaded model whose own ends are stops, too; kwargs: JSON of --chat_template_kwargs. Raises
    SettingError.
    """
    if path is not None:
        try:
            tokenizer.chat_template = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"--chat_template {path}: cannot be read ({error})") from error
    given = parse_template_kwargs(kwargs)
    ends = [] if model is None else listed_ends(model)
    source = None if path is None else tokenizer.chat_template
    try:
        template = ChatTemplate(tokenizer, source, listed_ends=ends, kwargs=given)
    except (TemplateError, ValueError) as error:
        flag = f"--chat_template {path}" if path else "the tokenizer's chat template"
        line = next(iter(str(error).splitlines()), "").rstrip(".: ")
        line = line if isinstance(error, ValueError) and line else f"{type(error).__name__} {line}"
        raise SettingError(
            f"{flag}: no conversation can be rendered with it ({line.rstrip()}); give "
            "--chat_template FILE that can"
        ) from error
    if unused := [name for name in given if not template.uses_argument(name)]:
        raise SettingError(f"{FLAG}: the chat template does not use {', '.join(unused)}")
    return template
