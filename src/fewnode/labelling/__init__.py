"""Teaching new classes by hand: a session of labels, a journal of it, and the page that serves it."""
