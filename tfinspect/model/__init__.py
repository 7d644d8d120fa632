"""The torch core: the only definition of a Transformer in the project. Start with `transformer.py`."""
