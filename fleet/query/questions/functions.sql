-- Sums by {by} and host, for the {limit} largest over all hosts. A sample counts for the function where it was taken.
WITH names AS (
    SELECT stack_id, coalesce(max(leaf), '[unknown]') AS function, max(leaf_module) AS module
    FROM stacks
    GROUP BY stack_id),
by_stack AS (
    SELECT {columns}stack_id, sum(weight) AS weight
    FROM samples_filled
    GROUP BY {columns}stack_id),
largest AS (
    SELECT {by}, sum(weight) AS total
    FROM by_stack
    JOIN names USING (stack_id)
    GROUP BY {by}
    ORDER BY total DESC, {by}
    LIMIT {limit})
SELECT {shown}{and_host}, sum(weight) AS weight, sum(samples) AS samples
FROM samples_filled
JOIN names USING (stack_id)
JOIN largest USING ({by})
GROUP BY total, {by}{and_host}
ORDER BY total DESC, {order}{and_host}
