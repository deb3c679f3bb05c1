"""``%agent config``: the controls an agent offers, and setting them: R41 to R45."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from silo_nb.ipython.options import did_you_mean
from silo_nb.ipython.outputs import say
from silo_nb.ipython.sessions import CellSession, session_book
from silo_nb.ipython.tables import show_table
from silo_nb.ipython.words import parse_words
from silo_nb.model import ConfigChoice, ConfigOption
from silo_nb.model.text import one_line
from silo_nb.runtime import agent_thread, wait_sync
from silo_nb.session.controls import OptionValue

__all__ = ["choose_value", "config_command"]

USAGE = "%agent config [OPTION [VALUE]] [-s NAME]"

_SWITCH = {"on": True, "true": True, "off": False, "false": False}


def config_command(_shell: InteractiveShell, line: str) -> None:
    """List the controls of a session, show one, or set one."""
    words = parse_words(line, USAGE, most=2)
    session = session_book().meant(words.session)
    session.require_agent()
    option_id, value = words.get(0), words.get(1)
    if option_id is None:
        _list(session)
        return
    option = _option(session.handle.config_options, option_id)
    if value is None:
        _show(option)
    else:
        _set(session, option, choose_value(option, value))


def choose_value(option: ConfigOption, said: str) -> OptionValue:
    """Return the value of `option` that was typed: a choice, by value or name, or a switch.

    Raises:
        UsageError: it has no such value; the message says which it has.

    >>> choose_value(ConfigOption("brief", "Brief", "boolean"), "On")
    True
    """
    wanted = said.casefold()
    if option.type == "boolean":
        if wanted not in _SWITCH:
            raise UsageError(f"%agent config {one_line(option.id)}: say on or off, not {said!r}")
        return _SWITCH[wanted]
    if option.type != "select":
        raise UsageError(
            f"%agent config {one_line(option.id)}: this version cannot set a control of the type "
            f"{option.type!r}"
        )
    for choice in option.choices:
        if choice.value == said:
            return choice.value
    # What people see is the name; agents never offer two values of one spelling.
    near = [c.value for c in option.choices if wanted in (c.value.casefold(), c.name.casefold())]
    if len(near) == 1:
        return near[0]
    values = [choice.value for choice in option.choices]
    raise UsageError(
        f"%agent config {one_line(option.id)}: there is no {said!r}.{did_you_mean(said, values)} "
        f"Choose one of {', '.join(map(one_line, values)) or 'none'}"
    )


def _list(session: CellSession) -> None:
    options = session.handle.config_options
    if not options:
        say(f"{one_line(session.handle.agent_name)} offers nothing to set in this session.")
        return
    rows = [
        (option.id, option.name, _value(option), _choices(option), option.category or "")
        for option in options
    ]
    show_table(("option", "name", "now", "choices", "category"), rows)


def _show(option: ConfigOption) -> None:
    if not option.choices:
        say(f"{one_line(option.id)} is {_value(option)}; it can be {_choices(option)}.")
        return
    rows = [
        (
            "▸" if choice.value == option.current_value else "",
            choice.value,
            choice.name,
            choice.group or "",
            choice.description or "",
        )
        for choice in option.choices
    ]
    show_table(("", one_line(option.id), "name", "group", "means"), rows)


def _set(session: CellSession, option: ConfigOption, value: OptionValue) -> None:
    before = session.handle.config_options
    wait_sync(agent_thread().run(session.live.controls.choose(option.id, value)))
    changes = list(_changes(before, session.handle.config_options))
    for change in changes or [f"{one_line(option.id)} is {_words(value)}, as it was"]:
        say(change)


def _changes(before: Iterable[ConfigOption], after: Iterable[ConfigOption]) -> Iterable[str]:
    """Yield what is different: setting one control may move, remove and add others."""
    old = {option.id: option for option in before}
    new = {option.id: option for option in after}
    for option in new.values():
        was = old.get(option.id)
        if was is None:
            yield f"{one_line(option.id)} is offered now, and is {_value(option)}"
        elif was.current_value != option.current_value:
            yield f"{one_line(option.id)} is {_value(option)}, was {_value(was)}"
    for option_id in old.keys() - new.keys():
        yield f"{one_line(option_id)} is no longer offered"


def _option(options: Iterable[ConfigOption], said: str) -> ConfigOption:
    by_id = {option.id: option for option in options}
    if said in by_id:
        return by_id[said]
    wanted = said.casefold()
    near = [o for o in by_id.values() if wanted in (o.id.casefold(), o.name.casefold())]
    if len(near) == 1:
        return near[0]
    raise UsageError(
        f"%agent config: there is no control {said!r}.{did_you_mean(said, by_id)} "
        f"There are: {', '.join(map(one_line, by_id)) or 'none'}"
    )


def _value(option: ConfigOption) -> str:
    return _words(option.current_value)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else one_line(str(value))


def _choices(option: ConfigOption) -> str:
    if option.type == "boolean":
        return "on, off"
    if option.type != "select":
        return f"of the type {one_line(option.type, 40)!r}, which cannot be set here"
    return "; ".join(_grouped(option.choices))


def _grouped(choices: Iterable[ConfigChoice]) -> Iterable[str]:
    groups: dict[str, list[str]] = {}
    for choice in choices:
        groups.setdefault(choice.group or "", []).append(choice.value)
    for group, values in groups.items():
        yield f"{group}: {', '.join(values)}" if group else ", ".join(values)
