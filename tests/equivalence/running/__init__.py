"""Small running models with random weights, each with the state it keeps by hand."""
