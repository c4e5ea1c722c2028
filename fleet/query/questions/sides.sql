-- What each side used on each host, and for how long it was recorded there: the time of bins in which it was seen.
WITH used AS (
    SELECT side, host, start, sum(weight) AS weight, sum(samples) AS samples
    FROM service_sides
    GROUP BY side, host, start),
recorded AS (
    SELECT host, start, sum(recorded_us) AS recorded_us
    FROM intervals
    GROUP BY host, start)
SELECT side, host, sum(weight) AS weight, sum(samples) AS samples, sum(recorded_us) AS recorded_us
FROM used
JOIN recorded USING (host, start)
GROUP BY side, host
ORDER BY side, host
