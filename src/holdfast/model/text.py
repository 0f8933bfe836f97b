"""UTF-8 strings as MQTT defines them: well formed, and without U+0000."""

from holdfast.model.errors import PeerError
from holdfast.model.reasons import MALFORMED_PACKET


def decode_text(raw: bytes, what: str) -> str:
    """`raw` as text; `what` names the field in the error."""
    try:
        # Python's strict decoder also refuses surrogates and overlong forms [MQTT-1.5.4-1].
        text = raw.decode()
    except UnicodeDecodeError:
        raise PeerError(MALFORMED_PACKET, f"{what} is not valid UTF-8") from None
    if "\0" in text:  # [MQTT-1.5.4-2]
        raise PeerError(MALFORMED_PACKET, f"{what} contains U+0000")
    return text
