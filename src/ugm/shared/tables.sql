-- The tables and functions of one shared partition; "{schema}" stands for its schema.
--
-- Functions lock, compare with what they are given, and change rows. They know no limit, no group and no queue: what to
-- charge, and what it must not exceed, is worked out by the caller. Locks are always taken in this order: the advisory
-- lock of the schema, the row of the process, applications by id, lines by id, counters by id. So no two calls wait for
-- each other; and counters, which many share, are locked for the shortest time.
--
-- Ids of applications and allocations can be used again after they have ended. So every change carries a stamp, a random
-- number that its process draws and that is never used again. A row keeps the stamp of the change that made it, and each
-- comparison includes the stamp, so that a row is never taken for an earlier one with the same id. Tokens of processes,
-- epochs, revisions and ids of counters are stamps as well, so that a database that was restored does not use them again.
--
-- What is not to be made raises an error, so that nothing of it stays:
--   UG001  moved: the ledger is not as expected     UG002  short: a counter would exceed what it must not exceed
--   UG003  stale: the epoch or a counter is gone    UG004  fenced: the process is presumed dead, and takes something

CREATE TABLE {schema}.structure (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    layout_version integer NOT NULL DEFAULT 2,
    -- A stamp: another one after every change of what decisions are compiled from.
    epoch bigint NOT NULL,
    -- A stamp: another one after every configuration.
    revision bigint NOT NULL,
    settings jsonb,
    user_limits_win boolean NOT NULL,
    -- What is counted besides vcore and memory, in the order of `counter.others`.
    names text[] NOT NULL DEFAULT '{{}}',
    -- What the nodes add up to, with a 0 for what only nodes have offered that are gone.
    total jsonb,
    closed boolean NOT NULL DEFAULT false
);

CREATE TABLE {schema}.node (name text PRIMARY KEY, offers jsonb NOT NULL);

-- Queues that the configuration does not name.
CREATE TABLE {schema}.queue (
    path text PRIMARY KEY, spec jsonb NOT NULL, has_left boolean NOT NULL, annotated jsonb
);

CREATE TABLE {schema}.process (
    token bigint PRIMARY KEY,
    name text NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    renewed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    fenced_at timestamptz,
    -- The number of the last change that was made.
    last bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE {schema}.application (
    id text PRIMARY KEY,
    -- User, groups, queue asked for, tags, style of the gang, whether it was adopted.
    submission jsonb NOT NULL,
    queue text NOT NULL,
    -- Empty until it is chosen, NULL for none.
    grp text,
    -- Running, failing, has run, has replaced: bits 1, 2, 4, 8.
    stage integer NOT NULL,
    held bigint NOT NULL DEFAULT 0,
    pending bigint NOT NULL DEFAULT 0,
    -- The stamp of the change that submitted it, and the stamp of the last change.
    generation bigint NOT NULL,
    version bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX ON {schema}.application (queue);

-- The ledger.
CREATE TABLE {schema}.line (
    id text PRIMARY KEY,
    application text NOT NULL,
    usage jsonb NOT NULL,
    state text NOT NULL,
    placeholder boolean NOT NULL,
    priority integer NOT NULL,
    preemptible boolean NOT NULL,
    -- The stamp of the change that wrote it.
    mark bigint NOT NULL,
    owner bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON {schema}.line (application);

CREATE TABLE {schema}.counter (
    id bigint PRIMARY KEY,
    kind text NOT NULL, name text NOT NULL, path text NOT NULL,
    vcore bigint NOT NULL DEFAULT 0,
    memory bigint NOT NULL DEFAULT 0,
    others bigint[] NOT NULL DEFAULT '{{}}',
    running bigint NOT NULL DEFAULT 0,
    UNIQUE (kind, name, path)
) WITH (fillfactor = 20);

-- Finds the counters of several places and makes those that are missing; NULL if the epoch is over.
CREATE FUNCTION {schema}.counters(
    p_epoch bigint, p_id bigint[], p_kind text[], p_name text[], p_path text[], p_others bigint[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({lock});
    IF p_epoch IS DISTINCT FROM (SELECT epoch FROM {schema}.structure) THEN
        RETURN NULL;
    END IF;
    INSERT INTO {schema}.counter (id, kind, name, path, others)
        SELECT i, k, n, p, p_others FROM unnest(p_id, p_kind, p_name, p_path) AS t(i, k, n, p) ORDER BY k, n, p
        ON CONFLICT (kind, name, path) DO NOTHING;
    RETURN (SELECT array_agg(c.id ORDER BY t.i)
        FROM unnest(p_kind, p_name, p_path) WITH ORDINALITY AS t(k, n, p, i)
        JOIN {schema}.counter c ON (c.kind, c.name, c.path) = (t.k, t.n, t.p));
END $$;

-- Begins a change: returns whether it is to be made, which it is not if its number was made before.
CREATE FUNCTION {schema}.begins(p_token bigint, p_number bigint, p_epoch bigint, p_spends boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({lock});
    UPDATE {schema}.process SET last = p_number, renewed_at = clock_timestamp()
        WHERE token = p_token AND last < p_number AND NOT (p_spends AND fenced_at IS NOT NULL)
            AND p_epoch = (SELECT epoch FROM {schema}.structure);
    IF FOUND THEN
        RETURN true;
    ELSIF EXISTS (SELECT FROM {schema}.process WHERE token = p_token AND last >= p_number) THEN
        RETURN false;
    ELSIF p_epoch IS DISTINCT FROM (SELECT epoch FROM {schema}.structure) THEN
        RAISE EXCEPTION 'stale' USING ERRCODE = 'UG003';
    END IF;
    RAISE EXCEPTION 'fenced' USING ERRCODE = 'UG004';
END $$;

-- Makes one change, all of it or none.
CREATE FUNCTION {schema}.change(
    p_token bigint, p_number bigint, p_epoch bigint, p_stamp bigint, p_spends boolean,
    -- Applications, sorted by id: what they have to be (a version of NULL is any), and what they become.
    p_app text[], p_generation bigint[], p_version bigint[], p_before integer[], p_after integer[], p_group text[],
    p_held bigint[], p_pending bigint[], p_empty boolean[], p_end boolean[],
    p_new jsonb,
    -- Lines that go, and lines that are written (with a mark of NULL if they are new).
    p_gone text[], p_gone_mark bigint[], p_put jsonb,
    -- Counters: what is added, and the most there may be then; NULL is without limit.
    p_id bigint[], p_vcore bigint[], p_most_vcore bigint[], p_memory bigint[], p_most_memory bigint[],
    p_others jsonb, p_running bigint[], p_most_running bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_short boolean;
    v_count bigint;
BEGIN
    IF NOT {schema}.begins(p_token, p_number, p_epoch, p_spends) THEN
        RETURN;
    END IF;
    IF p_new IS NOT NULL THEN
        INSERT INTO {schema}.application (id, submission, queue, grp, stage, generation, version)
            SELECT n.id, n.submission, n.queue, n.grp, n.stage, p_stamp, p_stamp
            FROM jsonb_to_recordset(p_new) AS n(id text, submission jsonb, queue text, grp text, stage integer);
    END IF;
    SELECT count(*) FILTER (WHERE a.stage = t.before AND (a.held + a.pending + t.h + t.p = 0) = t.empty
            AND a.generation = t.g AND a.version = coalesce(t.v, a.version))
        INTO v_count
        FROM (SELECT * FROM {schema}.application a WHERE a.id = ANY (p_app) ORDER BY a.id FOR UPDATE) a
        JOIN unnest(p_app, p_generation, p_version, p_before, p_held, p_pending, p_empty)
            AS t(id, g, v, before, h, p, empty) ON t.id = a.id;
    IF v_count <> cardinality(p_app) THEN
        RAISE EXCEPTION 'moved' USING ERRCODE = 'UG001';
    END IF;
    UPDATE {schema}.application a
        SET stage = t.after, grp = t.grp, held = a.held + t.h, pending = a.pending + t.p, version = p_stamp
        FROM unnest(p_app, p_after, p_group, p_held, p_pending) AS t(id, after, grp, h, p)
        WHERE a.id = t.id;
    IF cardinality(p_gone) > 0 THEN
        DELETE FROM {schema}.line l USING unnest(p_gone, p_gone_mark) AS t(id, mark)
            WHERE l.id = t.id AND l.mark = t.mark;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count <> cardinality(p_gone) THEN
            RAISE EXCEPTION 'moved' USING ERRCODE = 'UG001';
        END IF;
    END IF;
    IF p_put IS NOT NULL THEN
        WITH put AS (
            SELECT p.* FROM jsonb_to_recordset(p_put) AS p(
                id text, application text, usage jsonb, state text,
                placeholder boolean, priority integer, preemptible boolean, mark bigint)
        ), changed AS (
            UPDATE {schema}.line l SET usage = p.usage, state = p.state, mark = p_stamp
                FROM put p WHERE l.id = p.id AND l.mark = p.mark RETURNING 1
        ), added AS (
            INSERT INTO {schema}.line (id, application, usage, state, placeholder, priority, preemptible, mark, owner)
                SELECT id, application, usage, state, placeholder, priority, preemptible, p_stamp, p_token
                FROM put WHERE mark IS NULL ORDER BY id RETURNING 1
        ) SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM added) INTO v_count;
        IF v_count <> jsonb_array_length(p_put) THEN
            RAISE EXCEPTION 'moved' USING ERRCODE = 'UG001';
        END IF;
    END IF;
    IF true = ANY (p_end) THEN
        DELETE FROM {schema}.application a USING unnest(p_app, p_end) AS t(id, ends) WHERE a.id = t.id AND t.ends;
    END IF;
    IF cardinality(p_id) > 0 THEN
        SELECT coalesce(bool_or(c.vcore + t.v > t.mv OR c.memory + t.m > t.mm OR c.running + t.r > t.mr), false), count(*)
            INTO v_short, v_count
            FROM (SELECT * FROM {schema}.counter c WHERE c.id = ANY (p_id) ORDER BY c.id FOR UPDATE) c
            JOIN unnest(p_id, p_vcore, p_most_vcore, p_memory, p_most_memory, p_running, p_most_running)
                AS t(id, v, mv, m, mm, r, mr) ON t.id = c.id;
        IF v_count <> cardinality(p_id) THEN
            RAISE EXCEPTION 'stale' USING ERRCODE = 'UG003';
        END IF;
        IF NOT v_short AND p_others IS NOT NULL THEN
            SELECT coalesce(bool_or(c.others[o.at] + o.more > o.most), false) INTO v_short
                FROM jsonb_to_recordset(p_others) AS o(id bigint, at integer, more bigint, most bigint)
                JOIN {schema}.counter c ON c.id = o.id;
        END IF;
        IF v_short THEN
            RAISE EXCEPTION 'short' USING ERRCODE = 'UG002';
        END IF;
        UPDATE {schema}.counter c
            SET vcore = c.vcore + t.v, memory = c.memory + t.m, running = c.running + t.r
            FROM unnest(p_id, p_vcore, p_memory, p_running) AS t(id, v, m, r) WHERE c.id = t.id;
        IF p_others IS NOT NULL THEN
            UPDATE {schema}.counter c SET others = (
                    SELECT array_agg(u.amount + coalesce(o.more, 0) ORDER BY u.at)
                    FROM unnest(c.others) WITH ORDINALITY AS u(amount, at)
                    LEFT JOIN jsonb_to_recordset(p_others) AS o(id bigint, at integer, more bigint)
                        ON o.id = c.id AND o.at = u.at)
                WHERE c.id IN (SELECT id FROM jsonb_to_recordset(p_others) AS o(id bigint));
        END IF;
    END IF;
END $$;

-- The same for the most usual of all changes: one line of a running application more, or, with a mark, less. Every
-- counter gets the same; they are sorted by id.
CREATE FUNCTION {schema}.step(
    p_token bigint, p_number bigint, p_epoch bigint, p_stamp bigint, p_app text, p_generation bigint, p_stage integer,
    p_line text, p_usage text, p_mark bigint,
    p_id bigint[], p_vcore bigint, p_memory bigint, p_most_vcore bigint[], p_most_memory bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_more integer := CASE WHEN p_mark IS NULL THEN 1 ELSE -1 END;
BEGIN
    IF NOT {schema}.begins(p_token, p_number, p_epoch, p_mark IS NULL) THEN
        RETURN;
    END IF;
    UPDATE {schema}.application SET held = held + v_more, version = p_stamp
        WHERE id = p_app AND generation = p_generation AND stage = p_stage AND held + pending + v_more > 0;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'moved' USING ERRCODE = 'UG001';
    END IF;
    IF p_mark IS NULL THEN
        INSERT INTO {schema}.line (id, application, usage, state, placeholder, priority, preemptible, mark, owner)
            VALUES (p_line, p_app, p_usage::jsonb, 'held', false, 0, true, p_stamp, p_token);
    ELSE
        DELETE FROM {schema}.line WHERE id = p_line AND mark = p_mark;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'moved' USING ERRCODE = 'UG001';
        END IF;
    END IF;
    FOR i IN 1 .. cardinality(p_id) LOOP
        UPDATE {schema}.counter SET vcore = vcore + p_vcore, memory = memory + p_memory
            WHERE id = p_id[i] AND (vcore + p_vcore > p_most_vcore[i]) IS NOT TRUE
                AND (memory + p_memory > p_most_memory[i]) IS NOT TRUE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'short' USING ERRCODE = 'UG002';
        END IF;
    END LOOP;
END $$;
