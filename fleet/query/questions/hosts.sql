-- What was recorded of each host: time, samples, losses.
SELECT host, max(cpus) AS cpus, count(DISTINCT start) AS bins, sum(recorded_us) AS recorded_us,
    sum(recorded_us * cpus) AS cpu_us, sum(samples) AS samples, sum(lost) AS lost, sum(throttled) AS throttled
FROM intervals
GROUP BY host
ORDER BY host
