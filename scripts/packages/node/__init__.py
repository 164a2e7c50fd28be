"""The node's side as a .deb and an .rpm: hooks, agent, launcher and commands below /opt/holdfast."""
