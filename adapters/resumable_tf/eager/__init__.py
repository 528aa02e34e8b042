"""Inputs of TF2: in a `tf.train.Checkpoint`, and under Keras's ``fit``."""
