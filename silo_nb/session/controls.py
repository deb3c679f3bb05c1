"""Controls: the config options and slash commands an agent offers, and setting the former.

The list is the agent's. Setting one option can move or remove others, the agent moves some by
itself, and some it lists it does not know how to set: such a control is no longer offered until the
agent lists it again. (Seed 003; R41 to R46)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from silo_nb.acp.connection import ConnectionLostError
from silo_nb.acp.options import parse_config_options, typed_options, without_doubles
from silo_nb.acp.rpc import METHOD_NOT_FOUND, REQUEST_CANCELLED, RpcError
from silo_nb.errors import AgentRefused, SessionClosed
from silo_nb.model import Command, ConfigOption, Update
from silo_nb.session.errors import exit_error, refusal
from silo_nb.session.listeners import Listeners
from silo_nb.session.records import notice

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["Controls", "OptionValue"]

OptionValue = str | bool
"""A choice of a select, or the state of a boolean option."""

_GRANTS = frozenset({"mode", "permissions", "allow_all"})
"""Ids and categories of options that say what an agent may do without asking."""

_TYPED_METHODS = {
    "mode": ("session/set_mode", "modeId"),
    "model": ("session/set_model", "modelId"),
}
"""The older way to set an option of a category, for agents without the generic method."""


class Controls:
    """What a session offers besides the conversation; lives on the agent thread."""

    def __init__(self, session: LiveSession) -> None:
        self.commands: tuple[Command, ...] = ()
        self.options: tuple[ConfigOption, ...] = ()
        self.chosen: dict[str, OptionValue] = {}
        """What was set through us, by option id: applied again when the session is resumed."""
        self.on_commands_changed: Listeners[()] = Listeners()
        self.on_options_changed: Listeners[()] = Listeners()
        self._session = session
        self._typed: tuple[ConfigOption, ...] = ()

    def open(self, result: Mapping[str, Any]) -> None:
        """Take what the agent offers with a session it opened."""
        self._typed = typed_options(result)
        self.offer(parse_config_options(result))

    def offer(self, options: tuple[ConfigOption, ...]) -> None:
        """Take the agent's own, complete list; what it had refused counts again if listed."""
        self.options = without_doubles(options, self._typed)
        self.on_options_changed.tell()

    def take(self, update: Update) -> None:
        """Take what an update says of commands, options or the mode."""
        if update.commands is not None:
            self.commands = update.commands
            self.on_commands_changed.tell()
        if update.config_options is not None:
            self.offer(update.config_options)
        if update.mode_id is not None:
            self._move(lambda option: "mode" in (option.category, option.id), update.mode_id)

    def option(self, option_id: str) -> ConfigOption:
        """Return the offered option `option_id`.

        Raises:
            ValueError: there is none; the message says what there is.
        """
        for option in self.options:
            if option.id == option_id:
                return option
        known = [option.id for option in self.options]
        close = get_close_matches(option_id, known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        offered = ", ".join(map(repr, known)) or "none"
        raise ValueError(f"there is no option {option_id!r}; {hint}offered: {offered}")

    async def choose(self, option_id: str, value: OptionValue) -> None:
        """Set an option for good; see :meth:`silo_nb.Session.set_config_option`."""
        await self._set(option_id, value)
        self.chosen[option_id] = value
        if self._session.journal is not None:
            self._session.journal.append("meta", {"configOptions": {option_id: value}})

    async def _set(self, option_id: str, value: OptionValue) -> None:
        session = self._session
        if session.closed:
            raise SessionClosed(f"session {session.id!r} was disposed; connect() a new one")
        if session.exit is not None:
            raise exit_error(session, "session/set_config_option")
        option = self.option(option_id)
        _require_value(option, value)
        try:
            await self._write(option, value)
        except ConnectionLostError:
            raise exit_error(session, "session/set_config_option") from None
        except RpcError as error:
            if error.code != REQUEST_CANCELLED:
                self._withdraw(option_id)
            raise refusal(error, session, "session/set_config_option") from None

    async def apply(self, wanted: Mapping[str, OptionValue]) -> None:
        """Set several options, as far as they are offered; say once what was not taken. Case 57.

        A session whose mode could not be set is still a session: this never fails for a refusal.
        """
        for option_id, value in wanted.items():
            current = next((o.current_value for o in self.options if o.id == option_id), None)
            if current == value:
                continue
            try:
                await self._set(option_id, value)
            except (ValueError, AgentRefused) as error:
                reason = error.message if isinstance(error, AgentRefused) else str(error)
                self._session.take(notice(f"Option {option_id!r} was not set", reason))

    async def apply_recorded(self, recorded: Mapping[str, OptionValue]) -> None:
        """Set what was chosen before, as a journal has it; case 56.

        A journal may have come with a folder from somebody else. It decides nothing about what the
        agent may do: a mode, or a control of permissions, is only said to have been another one.
        See FAULTS T22.
        """
        profile = self._session.profile
        wanted: dict[str, OptionValue] = dict(profile.defaults)
        for option_id, value in recorded.items():
            option = next((o for o in self.options if o.id == option_id), None)
            if option is None or not _GRANTS & {option.id, option.category}:
                wanted[option_id] = value
            elif option.current_value != value and option_id not in profile.defaults:
                was = f"It was {value!r} when the session was left; set it again if you want that."
                title = f"Option {option_id!r} is {option.current_value!r}"
                self._session.take(notice(title, was))
        await self.apply(wanted)

    async def _write(self, option: ConfigOption, value: OptionValue) -> None:
        params: dict[str, Any] = {"sessionId": self._session.session_id}
        generic = {**params, "configId": option.id, "value": value}
        if isinstance(value, bool):
            generic["type"] = "boolean"
        try:
            await self._session.connection.request(
                "session/set_config_option",
                generic,
                on_result=lambda result: self._on_set(option, value, result),
            )
        except RpcError as error:
            typed = _TYPED_METHODS.get(option.category or option.id)
            if error.code != METHOD_NOT_FOUND or typed is None:
                raise
            method, key = typed
            await self._session.connection.request(
                method,
                {**params, key: value},
                on_result=lambda result: self._on_set(option, value, result),
            )

    def _on_set(self, option: ConfigOption, value: OptionValue, result: Mapping[str, Any]) -> None:
        """Take the agent's list, before the caller goes on; an empty one wipes nothing. Case 55."""
        options = parse_config_options(result)
        if options:
            self.offer(options)
        else:
            self._move(lambda known: known.id == option.id, value)

    def _move(self, is_it: Callable[[ConfigOption], bool], value: OptionValue) -> None:
        def move(options: tuple[ConfigOption, ...]) -> tuple[ConfigOption, ...]:
            return tuple(
                replace(option, current_value=value) if is_it(option) else option
                for option in options
            )

        self._typed = move(self._typed)
        moved = move(self.options)
        if moved != self.options:
            self.options = moved
            self.on_options_changed.tell()

    def _withdraw(self, option_id: str) -> None:
        # claude-agent-acp 0.75 lists `fast`, which its own handler refuses after a model change.
        # A refused option is one we stop offering, not an error to show for ever.
        self.options = tuple(option for option in self.options if option.id != option_id)
        self._typed = tuple(option for option in self._typed if option.id != option_id)
        self.on_options_changed.tell()


def _require_value(option: ConfigOption, value: OptionValue) -> None:
    """Refuse what the option does not offer, before anything is sent; see R43."""
    if option.type == "boolean":
        if not isinstance(value, bool):
            raise ValueError(f"option {option.id!r} takes True or False, not {value!r}")
    elif option.type == "select":
        offered = [choice.value for choice in option.choices]
        if value not in offered:
            raise ValueError(
                f"option {option.id!r} has no value {value!r}; "
                f"choose one of {', '.join(map(repr, offered))}"
            )
    else:
        raise ValueError(
            f"option {option.id!r} is of the type {option.type!r}, which this version cannot set"
        )
