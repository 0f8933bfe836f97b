"""Three nodes on one machine: against three NATS servers, and what their logs, takeovers and deaths cost."""
