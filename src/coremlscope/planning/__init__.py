"""Where an Apple chip would run each operation, what it would cost, and what to change."""
