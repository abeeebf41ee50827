"""The door for agents: verbs as tools of the Model Context Protocol, with short answers."""
