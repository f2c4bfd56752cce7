# runner/data
