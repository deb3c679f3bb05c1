"""Inside the scripted fake agent: everything that runs in its process.

Standard library only, and little of it, because tests start hundreds of these. It must not know
anything else of silo_nb: it is the other end of the wire. The language is described in
`silo_nb.testing.fake_agent`.
"""
