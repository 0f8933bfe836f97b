"""What the console costs the broker beside it, and how fast it answers: the budgets of the console, met or missed."""
