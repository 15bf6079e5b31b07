"""The names of strategies, for those who must not load them: the command line parses its arguments in a moment."""

# Those in which modules take part.
MODULAR_STRATEGIES = ("auto", "recompute", "dred", "dredc", "bf", "bfc")
STRATEGY_NAMES = ("auto", "recompute", "dred", "dredc", "bf", "bfc", "counting", "elastic", "ranked")
