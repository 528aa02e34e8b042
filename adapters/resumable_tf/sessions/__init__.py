"""Inputs of a TF1 graph, under sessions and Estimators."""
