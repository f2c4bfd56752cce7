# health
