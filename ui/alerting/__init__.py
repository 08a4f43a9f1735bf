"""Parts of the Alerts and Rules pages: tables, panels, dialogs."""
