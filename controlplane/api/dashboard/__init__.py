"""Routes of what people keep on the dashboard."""
