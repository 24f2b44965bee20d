"""A local model speaks for the user."""

from __future__ import annotations

import pytest

from fctncalling.data.bfcl import embedded_path
from fctncalling.envs.users import RuleUser
from fctncalling.evaluation.agents.local_model import LocalChatModel, user_by_name


def test_names_of_users_include_local_models() -> None:
    assert isinstance(user_by_name("rule:curt"), RuleUser)
    with pytest.raises(ValueError, match=r"expected one of scripted, rule.*hf:FOLDER"):
        user_by_name("rulers")


@pytest.mark.prove
def test_a_local_model_answers_greedily() -> None:
    complete = LocalChatModel(str(embedded_path("model")))
    messages = [{"role": "user", "content": "what is the weather in oslo on monday in celsius"}]
    assert complete(messages) == complete(messages) != ""
    with pytest.raises(ValueError, match="user hf:/nowhere: the model cannot be loaded"):
        user_by_name("hf:/nowhere")
