# runner/plan
