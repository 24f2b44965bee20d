"""The executor gives BFCL's texts for any call string, touches only its own tools, and tells our
failures apart.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.envs.errors import InfrastructureError
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.python_source.call_source import render_call


class Shop:
    """A user's own tool, with everything that can be odd about one."""

    def __init__(self) -> None:
        self.sold: list[Any] = []
        self._secret = 1

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        self.stock = scenario.get("stock", {})
        self.alias = self.stock

    def buy(self, item: str, count: int = 1) -> dict[str, Any]:
        self.stock[item] -= count
        self.sold.append(item)
        return {"item": item, "left": self.stock[item]}

    def echo(self, value: Any = None) -> Any:
        return value

    def break_down(self, how: str = "broken") -> None:
        raise RuntimeError(how)

    def leave(self) -> None:
        raise SystemExit(3)

    @property
    def price(self) -> int:
        raise AssertionError("a property is no function")


class Basket:
    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        self.items: list[Any] = []


def session(**keywords: Any) -> ToolSession:
    config = {"Shop": {"stock": {"tea": 3}}}
    return ToolSession(
        ["Shop", "Basket"], config, extra_tools={"Shop": Shop, "Basket": Basket}, **keywords
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("buy(item='tea')", '{"item": "tea", "left": 2}'),
        ("buy('tea', 2)", '{"item": "tea", "left": 1}'),
        ("  buy(item = 'tea')", '{"item": "tea", "left": 2}'),
        ("echo(buy('tea')['left'] * 10)", "20"),
        ("[echo(1), echo('x')]", "[1, 'x']"),
        ("echo('text')", "text"),
        ("echo()", "None"),
        ("echo({'a': (1, None, True), 2: float('nan')})", '{"a": [1, null, true], "2": NaN}'),
        ("echo({'é': 'ü'})", '{"\\u00e9": "\\u00fc"}'),
        ("echo({(1, 2): 3})", "{(1, 2): 3}"),
        ("echo({'a': b'x'})", "{'a': b'x'}"),
        ("echo(*[1])", "1"),
        ("echo(**{'value': 2})", "2"),
        ("echo('Total (USD)')", "Total(USD)"),  # blanks before "(" vanish inside texts, too
        ("echo('say echo (x)')", "say model_Shop_instance.echo(x)"),
        ("echo(value=-1)", "-1"),
        ("", "Error during execution: invalid syntax (<string>, line 0)"),
        ("buy(item=", "Error during execution: '(' was never closed (<string>, line 1)"),
        (
            "echo(value=1, value=2)",
            "Error during execution: keyword argument repeated: value (<string>, line 1)",
        ),
        ("x = echo(1)", "Error during execution: invalid syntax (<string>, line 1)"),
        ("buy(item='milk')", "Error during execution: 'milk'"),
        (
            "buy()",
            "Error during execution: Shop.buy() missing 1 required positional argument: 'item'",
        ),
        (
            "buy(size=1)",
            "Error during execution: Shop.buy() got an unexpected keyword argument 'size'",
        ),
        ("echo(1/0)", "Error during execution: division by zero"),
        ("foo(1/0)", "Error during execution: name 'foo' is not defined"),
        ("echo", "Error during execution: name 'echo' is not defined"),
        ("echo(value=tea)", "Error during execution: name 'tea' is not defined"),
        ("Shop.echo(1)", "Error during execution: name 'Shop' is not defined"),
        ("_load_scenario({})", "Error during execution: name '_load_scenario' is not defined"),
        ("price()", "Error during execution: name 'price' is not defined"),
        ("echo(1)(2)", "Error during execution: 'int' object is not callable"),
        ("kill()", "Error during execution: Function call kill is not allowed."),
        ("x.Popen()", "Error during execution: Function call Popen is not allowed."),
        ("run", "Error during execution: Function call run is not allowed."),
        ("a.b.kill()", "Error during execution: name 'a' is not defined"),
        ("break_down('no tea')", "Error during execution: no tea"),
    ],
)
def test_result_texts_are_those_of_bfcl_s_executor(call: str, text: str) -> None:
    assert session().execute(call) == text


@given(st.text(max_size=50) | st.text(alphabet="echo()[]{}'\",.=+-*/ 01ab\\\n", max_size=40))
def test_any_call_string_has_a_result_text(call: str) -> None:
    assert isinstance(session().execute(call), str)


@pytest.mark.parametrize(
    "call",
    [
        "__import__('os').system('exit 1')",
        "echo.__globals__",
        "().__class__.__base__.__subclasses__()",
        "model_Shop_instance._load_scenario({})",
        "model_Shop_instance.stock.clear()",
        "(lambda: echo(1))()",
        "[echo(x) for x in range(9)]",
        "eval('1')",
        "echo(f'{echo}')",
        " exit()",
        "echo('a' * 10**9)",
        "echo(9**9**9**9)",
        "echo(" + "(" * 10_000,
        "echo('" + "x" * 500_000 + "')",
    ],
)
def test_what_is_not_offered_cannot_be_reached(call: str) -> None:
    one = session()
    before = one.public_state()
    assert one.execute(call).startswith("Error during execution: ")
    assert one.public_state() == before


def test_a_tool_of_ours_that_breaks_is_no_mistake_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = ToolSession(["MathAPI"], {})
    tool = type(one.get_state()["MathAPI"])
    for error in (RuntimeError, AssertionError, OSError, MemoryError, ImportError):

        def broken(self: Any, a: Any, b: Any, error: type[Exception] = error) -> None:
            raise error("out of order")

        monkeypatch.setattr(tool, "add", broken)
        with pytest.raises(InfrastructureError, match=r"MathAPI.*add\(a=1, b=2\).*out of order"):
            one.execute("add(a=1, b=2)")


def test_a_tool_cannot_end_the_process() -> None:
    with pytest.raises(InfrastructureError, match="SystemExit"):
        session().execute("leave()")


def test_sessions_share_nothing() -> None:
    config = {"Shop": {"stock": {"tea": 3}}}
    one, other = (ToolSession(["Shop"], config, extra_tools={"Shop": Shop}) for _ in range(2))
    one.execute("buy('tea')")
    assert other.public_state() == {"Shop": {"sold": [], "stock": {"tea": 3}, "alias": {"tea": 3}}}
    assert config == {"Shop": {"stock": {"tea": 3}}}


def test_public_states_are_private_copies_in_the_order_of_the_attributes() -> None:
    one = session()
    state = one.public_state()
    assert list(state) == ["Shop", "Basket"]
    assert list(state["Shop"]) == ["sold", "stock", "alias"]
    assert state["Shop"]["alias"] is state["Shop"]["stock"]
    state["Shop"]["stock"]["tea"] = 99
    assert one.public_state()["Shop"]["stock"] == {"tea": 3}


def test_a_state_put_back_gives_the_same_results_again() -> None:
    one = session()
    state = one.get_state()
    calls = ["buy('tea')", "buy('tea', 2)", "echo(1)"]
    first = [one.execute(call) for call in calls]
    one.set_state(state)
    assert [one.execute(call) for call in calls] == first
    one.set_state(state)
    one.execute("buy('tea')")
    assert one.public_state()["Shop"]["alias"] == {
        "tea": 2
    }  # what was one object before is one still


def test_a_state_of_other_tools_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['Shop'\].*\['Shop', 'Basket'\]"):
        session().set_state({"Shop": Shop()})


def test_offered_names_are_the_public_methods() -> None:
    one = session()
    assert all(map(one.has_function, ("buy", "echo", "break_down", "leave")))
    assert not one.has_function("price")


def test_an_unknown_class_is_named_with_the_known_ones() -> None:
    with pytest.raises(LookupError, match=r"SpaceAPI.*MathAPI"):
        ToolSession(["SpaceAPI"], {})


def test_a_scenario_that_cannot_be_loaded_is_our_failure() -> None:
    with pytest.raises(InfrastructureError, match="Shop"):
        ToolSession(["Shop"], {"Shop": 5}, extra_tools={"Shop": Shop})


def test_calls_are_rendered_as_bfcl_writes_them() -> None:
    assert render_call("f", {"a": "x'y", "b": [1, {"c": {}}]}) == "f(a=\"x'y\", b=[1, {'c': {}}])"
    assert render_call("f", {"a": {"g": {"x": 1}}, "b": {}}) == "f(a=g(x=1), b={})"
