"""The record of a turn, or of all of a session: what stays when nothing runs any more.

Pure: takes entries of a transcript, gives HTML, markdown and plain text. Nothing in it does I/O,
waits, or knows of kernels, front ends and sessions. ``entries`` decides what is shown, ``turn``
how much of it, ``html``, ``markdown`` and ``plain`` how. ``past`` cuts a session into turns;
``page``, ``notebook`` and ``markdown`` make documents of them.
"""

from silo_nb.ipython.record.bundle import frozen_bundle
from silo_nb.ipython.record.entries import plan_steps, rows_of
from silo_nb.ipython.record.excerpt import Excerpt
from silo_nb.ipython.record.html import answered_html, question_html, record_html, table_html
from silo_nb.ipython.record.markdown import session_markdown
from silo_nb.ipython.record.notebook import session_notebook
from silo_nb.ipython.record.page import session_page
from silo_nb.ipython.record.past import (
    PastTurn,
    SessionRecord,
    last_rows,
    turns_of,
    turns_of_transcript,
)
from silo_nb.ipython.record.plain import details_plain, record_plain
from silo_nb.ipython.record.prose import open_fence
from silo_nb.ipython.record.rows import Gap, Note, Row, Said, Thought
from silo_nb.ipython.record.tools import answer_words, tool_row
from silo_nb.ipython.record.turn import Limits, TurnRecord
from silo_nb.ipython.record.words import token_words

__all__ = [
    "Excerpt",
    "Gap",
    "Limits",
    "Note",
    "PastTurn",
    "Row",
    "Said",
    "SessionRecord",
    "Thought",
    "TurnRecord",
    "answer_words",
    "answered_html",
    "details_plain",
    "frozen_bundle",
    "last_rows",
    "open_fence",
    "plan_steps",
    "question_html",
    "record_html",
    "record_plain",
    "rows_of",
    "session_markdown",
    "session_notebook",
    "session_page",
    "table_html",
    "token_words",
    "tool_row",
    "turns_of",
    "turns_of_transcript",
]
