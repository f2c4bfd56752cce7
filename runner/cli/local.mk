# runner/cli
