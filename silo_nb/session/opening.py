"""Opening a session with an agent that is there: new, restored, or begun afresh.

See :mod:`silo_nb.session.restore` for the table of outcomes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sized
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from silo_nb.acp.quirks import is_aside
from silo_nb.errors import AgentRefused
from silo_nb.journal import Journal, carry, discard
from silo_nb.model import Turn, Update
from silo_nb.session.handshake import Handshake
from silo_nb.session.records import notice
from silo_nb.session.restore import Past, Restore, read_past, unseen

if TYPE_CHECKING:
    from silo_nb.session.live import LiveSession

__all__ = ["Opening"]

FORGOTTEN = "The agent was started again and could not bring the conversation back."
"""Said when a session goes on with an agent that does not remember it."""

REPLAY_QUIET = 0.2
"""Seconds without an update after which a replay is over."""

REPLAY_PATIENCE = 5.0
"""Seconds after which a session/load is over even for an agent that never falls silent."""


class Opening:
    """Opens a session; lives on the agent thread."""

    def __init__(self, session: LiveSession) -> None:
        self.handshake = Handshake(session, session.surroundings)
        self._session = session
        self._journal: Journal | None = None
        """An earlier journal that we took over, until the session has it."""

    # ------------------------------------------------------------------------ the ways to open

    async def connect(self, restore: Restore | None) -> None:
        """Open the session that was asked for."""
        if restore is None:
            await self.handshake.initialize()
            await self._new(self._create_journal)
            await self._session.controls.apply(self._session.profile.defaults)
        elif restore.start_fresh:
            await self._start_fresh(restore)
        else:
            await self._restore(restore)

    async def again(self, agent_session_id: str) -> None:
        """Bring the conversation to a new process of the same agent, in the same journal."""
        session = self._session
        chosen = dict(session.controls.chosen)
        await self.handshake.initialize()
        if not await self._bring_back(agent_session_id, self._keep_journal):
            await self._new(self._keep_journal)
            session.take(notice(FORGOTTEN, "It does not know what was said before this line."))
        await session.controls.apply({**session.profile.defaults, **chosen})

    async def _start_fresh(self, restore: Restore) -> None:
        session = self._session
        discards = restore.transcript == "discard"
        if discards:
            # Nobody else may be writing what is to be deleted; better known before than after.
            past = await self._take_over(restore.session_id)
            await self.let_go()
        else:
            past = await read_past(session.surroundings.journals, restore.session_id)
            session.remember(past.updates)
        await self.handshake.initialize()
        await self._new(partial(self._create_journal, past=past, discards=discards))
        if not discards:
            self._settle()
        elif past.journal_id is not None and session.journal is not None:
            await asyncio.wrap_future(discard(session.journal, past.journal_id))
        await session.controls.apply_recorded(dict(past.chosen))

    async def _restore(self, restore: Restore) -> None:
        session = self._session
        past = await self._take_over(restore.session_id)
        session.remember(past.updates)
        session.id = past.journal_id or ""
        await self.handshake.initialize()
        create = partial(self._create_journal, past=past)
        if await self._bring_back(past.agent_session_id, create):
            session.outcome = "resumed"
            await session.controls.apply_recorded(dict(past.chosen))
        elif session.card.can_resume or session.card.can_load:
            session.forget()
            await self.let_go()
            await self._new(self._create_journal)
            await session.controls.apply(session.profile.defaults)
        else:
            session.outcome = "journal-only"
            session.session_id = past.agent_session_id
            await self.let_go()
            await self.handshake.stop()

    # --------------------------------------------------------------------------- asking the agent

    async def _new(self, journal_for: JournalFor) -> None:
        def on_result(result: Mapping[str, Any]) -> None:
            # The session is open before the next message is looked at: updates may follow at once.
            session_id = result.get("sessionId")
            if isinstance(session_id, str) and session_id:
                self._session.controls.open(result)
                self._session.opened(session_id, journal_for(session_id))

        await self.handshake.new(on_result)

    async def _bring_back(self, agent_session_id: str, journal_for: JournalFor) -> bool:
        """Ask for a session back in each way the agent has; return whether it came.

        Any error but a missing login means that the target is stale: agents use six different
        codes for that (REAL_AGENTS §4c).
        """
        session, card = self._session, self._session.card

        def on_result(result: Mapping[str, Any]) -> None:
            session_id = result.get("sessionId")
            adopted = session_id if isinstance(session_id, str) and session_id else agent_session_id
            session.controls.open(result)
            session.opened(adopted, journal_for(adopted))

        ways = {"session/resume": card.can_resume, "session/load": card.can_load}
        for method in (method for method, offered in ways.items() if offered):
            with session.replay() as replayed:
                try:
                    await self.handshake.restore(method, agent_session_id, on_result)
                except AgentRefused as refused:
                    session.note(f"{method} refused", refused.message)
                    continue
                if method == "session/load":
                    await _until_quiet(replayed)
            self._settle()
            self._take_replay(replayed)
            return True
        return False

    # ------------------------------------------------------------------------------- the journal

    async def _take_over(self, session_id: str) -> Past:
        """Read what is on record, and make sure that nobody else goes on writing it."""
        session = self._session
        journals = session.surroundings.journals
        past = await read_past(journals, session_id)
        if past.journal_id is not None:
            self._journal = Journal.open(journals, past.journal_id, **session.journal_options)
        return past

    async def let_go(self) -> None:
        """Give an earlier journal back, as it was."""
        journal, self._journal = self._journal, None
        if journal is not None:
            await asyncio.wait([asyncio.wrap_future(journal.close())], timeout=5)

    def _create_journal(
        self, session_id: str, *, past: Past | None = None, discards: bool = False
    ) -> Journal:
        """Return the journal of a session the agent calls `session_id`."""
        session, journal = self._session, self._journal
        if journal is not None and past is not None:
            self._journal = None
            if session_id != past.agent_session_id:
                journal.append("meta", {"sessionId": session_id})
            return journal
        journals, header = session.surroundings.journals, self._header(session_id)
        if past is None or past.journal_id is None:
            return Journal.create(journals, header, **session.journal_options)
        if discards:
            options = session.journal_options
            return Journal.create(journals, header, discards=past.journal_id, **options)
        return carry(journals, past.journal_id, header, **session.journal_options)

    def _keep_journal(self, session_id: str) -> Journal:
        journal = self._session.journal
        if journal is None:
            return self._create_journal(session_id)
        journal.append("meta", {"sessionId": session_id})
        return journal

    def _header(self, session_id: str) -> dict[str, Any]:
        session = self._session
        card, profile = session.card, session.profile
        return {
            "sessionId": session_id,
            "profileId": profile.id,
            "agentId": profile.agent_id,
            "agentName": card.title or card.name or profile.label,
            "agentVersion": card.version,
            "cwd": str(session.surroundings.cwd),
        }

    # ------------------------------------------------------------------------------- what was

    def _settle(self) -> None:
        """Close what the record leaves open because its kernel or its agent died."""
        session = self._session
        for row in session.transcript.tool_calls:
            for asked in row.permissions:
                if asked.outcome is None:
                    lost = replace(asked, outcome="lost", answered_by="restart")
                    session.take(Update("permission", permission=lost))
        if session.transcript.turn_running:
            session.take(Update("turn_end", turn=Turn(stop_reason="interrupted")))
        session.settle("interrupted")

    def _take_replay(self, replayed: list[Update]) -> None:
        session = self._session
        said = [update for update in replayed if not is_aside(update)]
        for update in unseen(session.transcript, said):
            session.take(update)
        session.settle("replayed")


JournalFor = Callable[[str], Journal]
"""Gives the journal of a session whose id the agent has just named."""


async def _until_quiet(replayed: Sized) -> None:
    """Wait until nothing more of a replay comes.

    gemini-cli 0.61 answers session/load first and replays then. A prompt sent at once would get
    what was said long ago into its own answer.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + REPLAY_PATIENCE
    heard = -1
    while heard != len(replayed) and loop.time() < end:
        heard = len(replayed)
        await asyncio.sleep(REPLAY_QUIET)
