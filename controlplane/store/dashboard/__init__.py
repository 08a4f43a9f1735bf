"""What people keep on the dashboard."""
