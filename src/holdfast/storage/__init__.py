"""Where data rests: one package for each technology."""
