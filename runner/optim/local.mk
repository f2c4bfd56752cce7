# runner/optim
