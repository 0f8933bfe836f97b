"""Which connections are read from: a client is not read from while its packets wait for something else."""

from holdfast.exchange.client import Channel


class ReadFlow:
    """1. A channel in `waiting` has packets left over from the last loop iteration, and is not read from."""

    def __init__(self) -> None:
        self.waiting: list[Channel] = []

    def pause(self, channel: Channel) -> None:
        """Read no more from a client whose packets are not being handled."""
        if not channel.reading_paused:
            channel.reading_paused = True
            channel.link.pause_reading()

    def read_on(self, channel: Channel) -> None:
        """Read again, unless something still stands against it."""
        stopped = channel.congested or channel.blocked or channel.closed or channel.publish_credit == 0
        stopped = stopped or channel.stalled
        if channel.reading_paused and not stopped and channel not in self.waiting:
            channel.reading_paused = False
            channel.link.resume_reading()

    def wait(self, channel: Channel) -> None:
        """Others first: the rest of the channel's packets is for the next iteration, and no more is read until then."""
        if channel.publish_credit != 0:
            self.waiting.append(channel)
        self.pause(channel)

    def take_waiting(self) -> list[Channel]:
        """The channels whose packets are to be handled now."""
        waiting = self.waiting
        self.waiting = []
        return waiting
