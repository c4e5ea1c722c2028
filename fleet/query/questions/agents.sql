-- What agents cost, and whether samples are missing that were taken and not lost: by day, as files of a day are replaced at
-- once when they are merged.
WITH delivered AS (
    SELECT host, date, event, sum(samples) AS delivered FROM samples GROUP BY host, date, event),
taken AS (
    SELECT host, date, event, sum(samples) AS taken, sum(lost) AS lost
    FROM intervals
    WHERE event NOT IN ('windows', 'counts', 'locality')
    GROUP BY host, date, event),
by_day AS (
    SELECT taken.host AS host, taken, coalesce(delivered, 0) AS delivered, lost
    FROM taken
    LEFT JOIN delivered
        ON delivered.host = taken.host AND delivered.date = taken.date AND delivered.event = taken.event),
of_host AS (
    SELECT host, sum(taken) AS all_taken, sum(delivered) AS all_delivered, sum(lost) AS all_lost,
        sum(CASE WHEN taken > delivered THEN taken - delivered ELSE 0 END) AS missing
    FROM by_day
    GROUP BY host),
cost AS (
    SELECT host, sum(cpu_us) AS cpu_us, sum(bin_us) AS bin_us, max(rss_bytes) AS rss_bytes,
        sum(dropped_samples) AS dropped_samples, sum(unidentified_samples) AS unidentified_samples
    FROM agent
    GROUP BY host)
SELECT cost.host AS host, cpu_us, bin_us, rss_bytes, all_taken AS taken, all_delivered AS delivered, missing,
    all_lost AS lost, dropped_samples, unidentified_samples
FROM cost
JOIN of_host ON of_host.host = cost.host
ORDER BY cost.host
