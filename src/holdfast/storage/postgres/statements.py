"""SQL statements for the tables of one schema. All take many clients at once, as arrays."""

from typing import Final

from holdfast.storage.postgres.rows import COLUMNS, READ, RELEASED

STATE: Final = 'client_id, last_serial_number, last_number, read_serial_number, waiting_messages, waiting_bytes, "full"'


class Statements:
    """The statements, with the names of the tables."""

    def __init__(self, schema: str) -> None:
        context, message = f"{schema}.session_context", f"{schema}.message"
        names = ", ".join(f'"{name}"' for name, _ in COLUMNS)
        arrays = ", ".join(f"${place}::{kind}[]" for place, (_, kind) in enumerate(COLUMNS, 1))

        #: In the order of ids, so that two transactions never deadlock.
        self.lock: Final = f"SELECT {STATE} FROM {context} WHERE client_id = ANY($1) ORDER BY client_id FOR UPDATE"
        self.look: Final = f"SELECT {STATE} FROM {context} WHERE client_id = ANY($1)"
        self.insert: Final = f"INSERT INTO {message} ({names}) SELECT * FROM unnest({arrays})"
        #: Rows of `_STATES`, with the time, and whether they are new. A row that another transaction has
        #: inserted meanwhile is an error, after which the transaction is repeated.
        self.save: Final = f"""
            WITH given AS MATERIALIZED (
                SELECT * FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                    $8::boolean[], $9::boolean[])
                AS given (client_id, serial, number, read, waiting, waiting_bytes, is_full, is_new)
            ), changed AS (
                UPDATE {context} AS c SET last_updated_time = $1, last_serial_number = g.serial,
                    last_number = g.number, read_serial_number = g.read, waiting_messages = g.waiting,
                    waiting_bytes = g.waiting_bytes, "full" = g.is_full
                FROM given AS g WHERE c.client_id = g.client_id AND NOT g.is_new
            )
            INSERT INTO {context} ({STATE}, last_updated_time)
            SELECT client_id, serial, number, read, waiting, waiting_bytes, is_full, $1 FROM given WHERE is_new"""
        self.prune: Final = f"""
            DELETE FROM {message} WHERE expires_us > 0 AND expires_us <= $1 AND client_id = ANY($2)
            RETURNING client_id, serial_number, size_bytes"""
        #: The oldest waiting messages, a number of each client.
        self.oldest: Final = f"""
            SELECT given.client_id, old.serial_number, old.size_bytes
            FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS given (client_id, after, most), LATERAL (
                SELECT serial_number, size_bytes FROM {message} AS m
                WHERE m.client_id = given.client_id AND m.serial_number > given.after
                ORDER BY serial_number LIMIT given.most
            ) AS old ORDER BY 1, 2"""
        #: Runs of serials: the first and the last of each.
        self.remove: Final = f"""
            DELETE FROM {message} AS m
            USING unnest($1::text[], $2::bigint[], $3::bigint[]) AS run (client_id, low, high)
            WHERE m.client_id = run.client_id AND m.serial_number BETWEEN run.low AND run.high
            RETURNING m.client_id, m.serial_number, m.size_bytes"""
        self.find: Final = f"""
            SELECT m.client_id, m.number, m.serial_number FROM {message} AS m
            JOIN unnest($1::text[], $2::bigint[], $3::bigint[]) AS run (client_id, low, high)
            ON m.client_id = run.client_id AND m.number BETWEEN run.low AND run.high AND m.serial_number > 0"""
        self.page: Final = f"""
            SELECT {READ} FROM {message}
            WHERE client_id = $1 AND serial_number > $2 AND (expires_us = 0 OR expires_us > $3)
            ORDER BY serial_number LIMIT $4"""
        self.passed: Final = f"""
            SELECT count(*), coalesce(sum(size_bytes), 0)::bigint FROM {message}
            WHERE client_id = $1 AND serial_number > $2 AND serial_number <= $3"""
        self.mark: Final = f"""
            UPDATE {context} SET read_serial_number = $2, waiting_messages = waiting_messages - $3,
                waiting_bytes = waiting_bytes - $4 WHERE client_id = $1"""
        self.release: Final = f"""
            UPDATE {message} SET packet_type = '{RELEASED}' WHERE client_id = $1 AND serial_number = ANY($2)"""
        self.size: Final = f"""
            SELECT count(*), coalesce(sum(size_bytes), 0)::bigint FROM {message}
            WHERE client_id = $1 AND serial_number > 0 AND (expires_us = 0 OR expires_us > $2)"""
        #: Messages that cannot be read are moved to serials that no reader uses, for inspection.
        self.set_aside: Final = f"""
            UPDATE {message} SET serial_number = -serial_number WHERE client_id = $1 AND serial_number = ANY($2)"""
        #: A number of messages of clients whose last number is unchanged.
        self.empty: Final = f"""
            DELETE FROM {message} WHERE ctid IN (
                SELECT m.ctid FROM {message} AS m
                JOIN unnest($1::text[], $2::bigint[]) AS given (client_id, number) ON m.client_id = given.client_id
                JOIN {context} AS c ON c.client_id = given.client_id AND c.last_number = given.number
                LIMIT $3)"""
        self.forget: Final = f"""
            DELETE FROM {context} AS c USING unnest($1::text[], $2::bigint[]) AS given (client_id, number)
            WHERE c.client_id = given.client_id AND c.last_number = given.number"""
        self.clients: Final = f"SELECT client_id FROM {context} WHERE client_id > $1 ORDER BY client_id LIMIT $2"
        self.first_client: Final = f"SELECT client_id FROM {context} ORDER BY client_id LIMIT $1"
        self.expired: Final = f"""
            SELECT client_id, serial_number FROM {message} WHERE expires_us > 0 AND expires_us <= $1
            ORDER BY expires_us LIMIT $2"""
