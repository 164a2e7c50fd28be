"""Notices about jobs, from launchers to their owners and the site, by mail or webhook (decision 040)."""
