-- Sums by function, side and host, for the {limit} functions with the largest sums of both sides.
WITH names AS (
    SELECT stack_id, coalesce(max(leaf), '[unknown]') AS function
    FROM stacks
    GROUP BY stack_id),
by_stack AS (
    SELECT stack_id, sum(weight) AS weight
    FROM sides
    GROUP BY stack_id),
largest AS (
    SELECT function, sum(weight) AS total
    FROM by_stack
    JOIN names USING (stack_id)
    GROUP BY function
    ORDER BY total DESC, function
    LIMIT {limit}),
chosen AS (
    SELECT stack_id, function, total
    FROM names
    JOIN largest USING (function))
SELECT function, side, host, sum(weight) AS weight, sum(samples) AS samples
FROM sides
JOIN chosen USING (stack_id)
GROUP BY total, function, side, host
ORDER BY total DESC, function, side, host
