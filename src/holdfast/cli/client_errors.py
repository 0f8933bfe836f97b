"""What can go wrong between the command line and a broker: the words that all our clients share."""

from holdfast.wire.refusals import LostError, RefusedError, connect_refusal, in_words

__all__ = ["LostError", "RefusedError", "connect_refusal", "in_words"]
