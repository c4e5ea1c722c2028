-- Sums by {by} and host, for the {limit} largest over all hosts. A sample counts for the function where it was taken.
WITH by_stack AS (
    SELECT {columns}host, stack_id, sum(weight) AS weight, sum(samples) AS samples
    FROM samples
    GROUP BY {columns}host, stack_id),
names AS (
    SELECT stack_id, coalesce(max(leaf), '[unknown]') AS function, max(leaf_module) AS module
    FROM stacks
    GROUP BY stack_id),
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
