"""Questions to a model of which only its answers are known: is it a causal language model, and a sound one?

    finite        every logit and every gradient is a number
    determinism   in evaluation mode, equal passes give equal logits
    causality     no row depends on a later token
    prefix        the rows of a prefix are those of the prefix alone
    batch         a row does not depend on its neighbours, their number or their order
    cache         decoding with a cache gives the logits of the whole pass
    gradients     a gradient reaches every trainable parameter
    ties          an output head that is tied to the token table is that table
    loss          at initialisation the loss is near ln V

Tokens are changed and logits compared: passes of one shape run the same kernels, so that what a token cannot touch
stays exactly equal; passes of different shapes agree to rounding. Parts that start at zero do nothing and hide their
faults, so causality, prefix, batch and cache are asked once more with noise in the weights, and those that can differ
between the modes once more in training mode, with the same random numbers for each pass.
"""
