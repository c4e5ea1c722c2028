-- Sums by function, side and host, for the {limit} functions with the largest sums of both sides.
WITH by_stack AS (
    SELECT side, host, stack_id, sum(weight) AS weight, sum(samples) AS samples
    FROM sides
    GROUP BY side, host, stack_id),
names AS (
    SELECT stack_id, coalesce(max(leaf), '[unknown]') AS function
    FROM stacks
    GROUP BY stack_id),
per_host AS (
    SELECT function, side, host, sum(weight) AS weight, sum(samples) AS samples
    FROM by_stack
    JOIN names USING (stack_id)
    GROUP BY function, side, host),
largest AS (
    SELECT function, sum(weight) AS total
    FROM per_host
    GROUP BY function
    ORDER BY total DESC, function
    LIMIT {limit})
SELECT function, side, host, weight, samples
FROM per_host
JOIN largest USING (function)
ORDER BY total DESC, function, side, host
