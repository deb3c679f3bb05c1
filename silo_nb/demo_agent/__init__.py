"""The offline agent behind the built-in profile ``demo``: ``python -m silo_nb.demo_agent``.

It speaks ACP version 1 over stdio like any other agent, and has no language model: it recognises
what it is asked for by words and slash commands, and says so. What it does is real: it lists, reads
and summarises the files of the session's directory, proposes and makes edits, and runs harmless
commands, each after asking. Same directory, same prompt: same answer.

It stands alone: standard library only, and nothing of silo_nb, which sees it through its pipes.

Environment:

* ``SILO_DEMO_SPEED``: how fast it talks; 1 by default, 4 is four times as fast, 0 without pauses.
* ``SILO_DEMO_STATE``: where it keeps its sessions; by default ``silo_nb/demo_agent`` in
  ``$XDG_STATE_HOME`` or ``~/.local/state``.

A message goes ``wire`` → ``server`` → ``session`` → ``turn`` → one of ``skills``.
"""
