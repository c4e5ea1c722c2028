-- Sums of values of runs by {by}, name, part, and host, for the first {limit}, times first. Runs that are not usable are left
-- out, and what was imported twice counts once.
WITH done AS (
    SELECT DISTINCT batch, run, {by}{and_host}, command_id
    FROM runs_filled
    WHERE usable),
measured AS (
    SELECT DISTINCT batch, run, name, part, value_unit, origin, value
    FROM run_values_filled
    WHERE value IS NOT NULL),
per_host AS (
    SELECT {by}, CASE WHEN value_unit = 's' THEN 0 ELSE 1 END AS place, name, part, value_unit, origin{and_host},
        count(*) AS n, sum(value) AS total, min(command_id) AS first_command, max(command_id) AS last_command
    FROM measured
    JOIN done USING (batch, run)
    GROUP BY {by}, name, part, value_unit, origin{and_host}),
chosen AS (
    SELECT {by}, place, name, part, value_unit, origin
    FROM per_host
    GROUP BY {by}, place, name, part, value_unit, origin
    ORDER BY {by}, place, name, part, value_unit, origin
    LIMIT {limit})
SELECT {shown}, name, nullif(part, '') AS part, value_unit, origin{and_host}, n, total, first_command, last_command
FROM per_host
JOIN chosen USING ({by}, place, name, part, value_unit, origin)
ORDER BY {order}, place, name, part NULLS FIRST, value_unit, origin{and_host}
