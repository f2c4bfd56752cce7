# runner/comm
