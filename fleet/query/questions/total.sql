-- Sums by {by} and host, for the {limit} largest over all hosts. A sample counts once for each function of its stack.
WITH frames_once AS (
    SELECT f.stack_id AS stack_id, coalesce(max(f.function), '[unknown]') AS function, max(f.module) AS module
    FROM frames AS f
    GROUP BY f.stack_id, f.depth, f.inline_depth),
names AS (
    SELECT stack_id{of_stacks}
    FROM frames_once
    GROUP BY stack_id{of_stacks}),
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
