-- Sums by {by} and host, for the {limit} largest over all hosts.
WITH per_host AS (
    SELECT {by}{and_host}, sum(weight) AS weight, sum(samples) AS samples
    FROM services_filled
    GROUP BY {by}{and_host}),
largest AS (
    SELECT {by}, sum(weight) AS total
    FROM per_host
    GROUP BY {by}
    ORDER BY total DESC, {by}
    LIMIT {limit})
SELECT {shown}{and_host}, weight, samples
FROM per_host
JOIN largest USING ({by})
ORDER BY total DESC, {order}{and_host}
