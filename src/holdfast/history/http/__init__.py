"""History by HTTP, for programs without Arrow: `server`, requests (`query`), limits on connections (`admission`)."""
