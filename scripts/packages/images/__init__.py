"""The images of bridge and agent, built without a daemon: archives in the OCI layout."""
