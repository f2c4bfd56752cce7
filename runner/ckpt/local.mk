# runner/ckpt
