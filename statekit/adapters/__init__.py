"""Adapters of the models that statekit ships: generated classes, and the few lines on top."""
