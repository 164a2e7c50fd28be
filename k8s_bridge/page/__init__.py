"""The status page: what the loop reports, what is read for the page only, and how it is served."""
