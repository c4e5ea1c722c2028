-- What was recorded of each host: time, samples, losses.
SELECT i.host AS host, max(i.cpus) AS cpus, count(DISTINCT i.start) AS bins, sum(i.recorded_us) AS recorded_us,
    sum(i.recorded_us * i.cpus) AS cpu_us, sum(i.samples) AS samples, sum(i.lost) AS lost, sum(i.throttled) AS throttled
FROM intervals AS i
GROUP BY i.host
ORDER BY i.host
