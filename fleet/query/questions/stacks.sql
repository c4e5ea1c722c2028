-- The {limit} stacks with the largest sums by service, a row for each frame: the outermost function of a place first.
WITH by_stack AS (
    SELECT service, stack_id, sum(weight) AS weight, sum(samples) AS samples
    FROM samples
    GROUP BY service, stack_id
    ORDER BY weight DESC, service, stack_id
    LIMIT {limit}),
chosen AS (
    SELECT stack_id FROM by_stack GROUP BY stack_id),
named AS (
    SELECT stack_id, depth, inline_depth, max(function) AS function, max(module) AS module,
        max(address) AS address
    FROM frames
    JOIN chosen USING (stack_id)
    GROUP BY stack_id, depth, inline_depth)
SELECT service, stack_id, weight, samples, depth, inline_depth, function, module, address
FROM by_stack
JOIN named USING (stack_id)
ORDER BY service, stack_id, depth DESC, inline_depth
