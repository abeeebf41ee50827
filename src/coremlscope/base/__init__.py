"""What every room may use: errors, figures with origins, units, safe writing, budgets, children."""
