"""The status page: what the loop tells, what is read for the page only, and how it is served."""
