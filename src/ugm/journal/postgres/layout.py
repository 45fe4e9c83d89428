"""The tables of a log in PostgreSQL, and the function that appends changes; ``{schema}`` stands for their schema."""

from __future__ import annotations

from typing import Final

__all__ = ["DEPOSED", "INCONSISTENT", "LAYOUT", "TABLES"]

#: The version of the tables and of the function. Other versions are refused.
LAYOUT: Final = 1

#: The error code of `append` for a later term.
DEPOSED: Final = "UG101"
#: The error code of `append` for rows that do not continue the log.
INCONSISTENT: Final = "UG102"

TABLES: Final = """
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE {schema}.version (layout integer NOT NULL);

-- The only row is updated with every commit. Free space in its page keeps these updates cheap.
CREATE TABLE {schema}.leader (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    term bigint NOT NULL,
    -- The number of the last change.
    number bigint NOT NULL,
    name text NOT NULL,
    -- Empty if no process may replace the leader, or if it has ended.
    address text NOT NULL,
    renewed_at timestamptz NOT NULL
) WITH (fillfactor = 10);

CREATE TABLE {schema}.log (
    number bigint PRIMARY KEY,
    term bigint NOT NULL,
    at bigint NOT NULL,
    data bytea NOT NULL,
    sum bigint NOT NULL
);
CREATE TABLE {schema}.snapshot (position integer PRIMARY KEY, data bytea NOT NULL, sum bigint NOT NULL);
CREATE TABLE {schema}.history (position integer PRIMARY KEY, data bytea NOT NULL, sum bigint NOT NULL);
-- Compression costs the leader more time than it saves.
ALTER TABLE {schema}.log ALTER data SET STORAGE EXTERNAL;
ALTER TABLE {schema}.snapshot ALTER data SET STORAGE EXTERNAL;

CREATE FUNCTION {schema}.append(
    my_term bigint, first_number bigint, instants bigint[], contents bytea[], sums bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    last_number CONSTANT bigint := first_number + cardinality(instants) - 1;
    known_number bigint := first_number - 1;
    known_term bigint;
BEGIN
    UPDATE {schema}.leader SET number = last_number, renewed_at = clock_timestamp()
        WHERE term = my_term AND number = known_number;
    IF NOT FOUND THEN
        SELECT term, number INTO known_term, known_number FROM {schema}.leader FOR UPDATE;
        IF known_term IS DISTINCT FROM my_term THEN
            RAISE EXCEPTION USING ERRCODE = 'UG101', MESSAGE = coalesce(known_term, 0);
        END IF;
        IF known_number < first_number - 1 THEN
            RAISE EXCEPTION USING ERRCODE = 'UG102', MESSAGE = format(
                'it ends with change %s, but %s were acknowledged', known_number, first_number - 1);
        END IF;
        -- A commit in doubt that is repeated. Its first rows are in the log already.
        IF EXISTS (
            SELECT FROM unnest(sums) WITH ORDINALITY AS mine(sum, position)
            LEFT JOIN {schema}.log ON log.number = first_number + position - 1
            WHERE first_number + position - 1 <= known_number
                AND (log.term, log.sum) IS DISTINCT FROM (my_term, mine.sum)
        ) THEN
            RAISE EXCEPTION USING ERRCODE = 'UG102', MESSAGE = format(
                'change %s differs from what this process wrote', first_number);
        END IF;
        UPDATE {schema}.leader SET number = greatest(known_number, last_number), renewed_at = clock_timestamp();
    END IF;
    INSERT INTO {schema}.log (number, term, at, data, sum)
        SELECT first_number + position - 1, my_term, mine.at, mine.data, mine.sum
        FROM unnest(instants, contents, sums) WITH ORDINALITY AS mine(at, data, sum, position)
        WHERE first_number + position - 1 > known_number;
END
$$;
"""
