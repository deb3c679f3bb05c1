"""The wire: the Agent Client Protocol, version 1, as JSON-RPC lines over a process's pipes.

The only package that knows camelCase, method names and what real agents do beside the protocol.
It knows nothing of sessions, journals or notebooks; what it makes of the wire is
:class:`silo_nb.model.Update`.
"""
