# runner/train
