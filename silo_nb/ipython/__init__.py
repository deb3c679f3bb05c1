"""Agents in cells: the extension, its magics, what a cell shows live and what stays of it.

Job: turn a cell into a turn of a session, show how it goes, ask the person before it, and leave a
record that needs no kernel. Nothing here is imported by ``%load_ext`` that a magic could import
when it runs.

Must not know: the wire, the journal's format, widgets.
"""
