-- Sums by {by} and host, for the {limit} largest over all hosts. A sample counts once for each function of its stack.
WITH by_stack AS (
    SELECT {columns}host, stack_id, sum(weight) AS weight, sum(samples) AS samples
    FROM samples
    GROUP BY {columns}host, stack_id),
names AS (
    SELECT f.stack_id AS stack_id, coalesce(f.function, '[unknown]') AS function, f.module AS module
    FROM frames AS f
    GROUP BY f.stack_id, coalesce(f.function, '[unknown]'), f.module),
per_host AS (
    SELECT {by}, host, sum(weight) AS weight, sum(samples) AS samples
    FROM by_stack
    JOIN names USING (stack_id)
    GROUP BY {by}, host),
largest AS (
    SELECT {by}, sum(weight) AS total
    FROM per_host
    GROUP BY {by}
    ORDER BY total DESC, {by}
    LIMIT {limit})
SELECT {by}, host, weight, samples
FROM per_host
JOIN largest USING ({by})
ORDER BY total DESC, {by}, host
