-- Waits by {by}, host and length, for the {limit} with most time over all hosts.
WITH per_host AS (
    SELECT {by}{and_host}, length_ns, sum(waits) AS waits, sum(time_us) AS time_us,
        sum(queued_us) AS queued_us
    FROM waits_filled
    GROUP BY {by}{and_host}, length_ns),
largest AS (
    SELECT {by}, sum(time_us) AS total
    FROM per_host
    GROUP BY {by}
    ORDER BY total DESC, {by}
    LIMIT {limit})
SELECT {shown}{and_host}, length_ns, waits, time_us, queued_us
FROM per_host
JOIN largest USING ({by})
ORDER BY total DESC, {order}{and_host}, length_ns
