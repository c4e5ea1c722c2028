-- What agents cost, and whether samples are missing that were taken and not lost.
WITH delivered AS (
    SELECT host, sum(samples) AS delivered FROM samples GROUP BY host),
taken AS (
    SELECT host, sum(samples) AS taken, sum(lost) AS lost
    FROM intervals
    WHERE event NOT IN ('windows', 'counts', 'locality')
    GROUP BY host),
cost AS (
    SELECT host, sum(cpu_us) AS cpu_us, sum(bin_us) AS bin_us, max(rss_bytes) AS rss_bytes,
        sum(dropped_samples) AS dropped_samples, sum(unidentified_samples) AS unidentified_samples
    FROM agent
    GROUP BY host)
SELECT cost.host AS host, cpu_us, bin_us, rss_bytes, taken, coalesce(delivered, 0) AS delivered, lost, dropped_samples,
    unidentified_samples
FROM cost
JOIN taken ON taken.host = cost.host
LEFT JOIN delivered ON delivered.host = cost.host
ORDER BY cost.host
