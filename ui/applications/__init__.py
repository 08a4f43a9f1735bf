"""Parts of the Applications page: tables, the panel of one application, and the confirmation of its actions."""
