# runner/journal
