"""Commands and config options: what a session offers besides the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from silo_nb.acp.fields import items, mapping, string
from silo_nb.model import Command, ConfigChoice, ConfigOption

__all__ = ["parse_commands", "parse_config_options", "session_options"]


def parse_commands(raw: Mapping[str, Any]) -> tuple[Command, ...]:
    """Return the slash commands in ``availableCommands``; without an input, `hint` is None."""
    return tuple(
        Command(name, string(item, "description") or "", string(mapping(item, "input"), "hint"))
        for item in items(raw, "availableCommands")
        if (name := string(item, "name"))
    )


def parse_config_options(raw: Mapping[str, Any]) -> tuple[ConfigOption, ...]:
    """Return the controls in ``configOptions``, those of unknown types included."""
    return tuple(
        ConfigOption(
            id=option_id,
            name=string(item, "name") or option_id,
            type=string(item, "type") or "unknown",
            current_value=item.get("currentValue"),
            choices=tuple(_choices(item)),
            category=string(item, "category"),
            description=string(item, "description"),
        )
        for item in items(raw, "configOptions")
        if (option_id := string(item, "id"))
    )


def session_options(result: Mapping[str, Any]) -> tuple[ConfigOption, ...]:
    """Return the controls a session/new, load or resume result offers.

    ``modes`` are the older form of one control: gemini-cli 0.61 has nothing else. They count only
    where no config option says the same. (case 55)
    """
    options = parse_config_options(result)
    if any(option.category == "mode" or option.id == "mode" for option in options):
        return options
    modes = mapping(result, "modes")
    choices = tuple(
        ConfigChoice(mode_id, string(item, "name") or mode_id, string(item, "description"))
        for item in items(modes, "availableModes")
        if (mode_id := string(item, "id"))
    )
    if not choices:
        return options
    current = string(modes, "currentModeId")
    return (*options, ConfigOption("mode", "Mode", "select", current, choices, category="mode"))


def _choices(option: Mapping[str, Any]) -> Iterator[ConfigChoice]:
    for item in items(option, "options"):
        if isinstance(item.get("options"), list):
            group = string(item, "name") or string(item, "group")
            yield from (c for inner in items(item, "options") if (c := _choice(inner, group)))
        elif choice := _choice(item, None):
            yield choice


def _choice(item: Mapping[str, Any], group: str | None) -> ConfigChoice | None:
    value = string(item, "value")
    if value is None:
        return None
    return ConfigChoice(value, string(item, "name") or value, string(item, "description"), group)
