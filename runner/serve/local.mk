# runner/serve
