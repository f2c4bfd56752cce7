# runner/supervise
