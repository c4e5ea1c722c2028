-- Counts of events by {by}, event and host, for the {limit} with most CPU time over all hosts.
WITH per_host AS (
    SELECT {by}, event_set, event{and_host}, sum(cgroups) AS cgroups, sum(count) AS count, sum(cpu_us) AS cpu_us,
        sum(all_cpu_us) AS all_cpu_us
    FROM counts_filled
    GROUP BY {by}, event_set, event{and_host}),
largest AS (
    SELECT {by}, sum(all_cpu_us) AS total
    FROM per_host
    GROUP BY {by}
    ORDER BY total DESC, {by}
    LIMIT {limit})
SELECT {shown}, event_set, event{and_host}, cgroups, count, cpu_us, all_cpu_us
FROM per_host
JOIN largest USING ({by})
ORDER BY total DESC, {order}, event_set, event{and_host}
