CREATE TABLE outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification jsonb NOT NULL,
    error        text -- of a refused row
);
CREATE INDEX outbox_waiting ON outbox (id) WHERE error IS NULL;
