"""Stop, start and restart from the dashboard: confirmation dialogs and the progress of an action."""
