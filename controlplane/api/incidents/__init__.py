"""Incidents over HTTP: routes, bodies, and the bundle, an incident as one HTML file."""
