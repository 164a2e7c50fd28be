"""Builds what a release consists of: Helm chart, wheel, zipapp, packages and images, from this tree."""
