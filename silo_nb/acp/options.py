"""Commands and config options: what a session offers besides the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from silo_nb.acp.fields import items, mapping, string
from silo_nb.model import Command, ConfigChoice, ConfigOption

__all__ = ["parse_commands", "parse_config_options", "typed_options", "without_doubles"]


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


def typed_options(result: Mapping[str, Any]) -> tuple[ConfigOption, ...]:
    """Return the controls a session/new, load or resume result offers in the older forms.

    ``modes`` is all that gemini-cli 0.61 has; ``models`` was removed from the protocol in 2026 and
    is still sent by gemini, qwen, opencode, kimi and copilot.
    """
    modes, models = mapping(result, "modes"), mapping(result, "models")
    offered = (
        _typed("mode", "Mode", modes.get("currentModeId"), items(modes, "availableModes"), "id"),
        _typed(
            "model",
            "Model",
            models.get("currentModelId"),
            items(models, "availableModels"),
            "modelId",
        ),
    )
    return tuple(option for option in offered if option.choices)


def without_doubles(
    options: tuple[ConfigOption, ...], typed: tuple[ConfigOption, ...]
) -> tuple[ConfigOption, ...]:
    """Return `options` followed by those of `typed` that none of them says already.

    Config options need not hide modes (case 55); but pi-acp 0.0.34 sends its thinking levels as
    both, so that the same values count as the same control.
    """
    names = {name for option in options for name in (option.category, option.id)}
    values = {frozenset(choice.value for choice in option.choices) for option in options}
    extra = (
        option
        for option in typed
        if option.id not in names
        and frozenset(choice.value for choice in option.choices) not in values
    )
    return (*options, *extra)


def _typed(
    option_id: str, name: str, current: Any, choices: Iterator[Mapping[str, Any]], key: str
) -> ConfigOption:
    return ConfigOption(
        id=option_id,
        name=name,
        type="select",
        current_value=current,
        choices=tuple(
            ConfigChoice(value, string(item, "name") or value, string(item, "description"))
            for item in choices
            if (value := string(item, key))
        ),
        category=option_id,
    )


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
