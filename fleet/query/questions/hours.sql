-- Sums by {by} and hour, for the {limit} largest over all hours.
WITH per_hour AS (
    SELECT {by}, date_trunc('hour', start) AS hour, sum(weight) AS weight, sum(samples) AS samples,
        count(DISTINCT host) AS hosts
    FROM services_filled
    GROUP BY {by}, date_trunc('hour', start)),
largest AS (
    SELECT {by}, sum(weight) AS total
    FROM per_hour
    GROUP BY {by}
    ORDER BY total DESC, {by}
    LIMIT {limit})
SELECT {shown}, hour, weight, samples, hosts
FROM per_hour
JOIN largest USING ({by})
ORDER BY total DESC, {order}, hour
