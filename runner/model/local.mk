# runner/model
