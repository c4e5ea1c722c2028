-- Counts of all services by event and host: what shares of a service are of.
SELECT event_set, event, host, sum(cgroups) AS cgroups, sum(count) AS count, sum(cpu_us) AS cpu_us,
    sum(all_cpu_us) AS all_cpu_us
FROM counts
GROUP BY event_set, event, host
ORDER BY event_set, event, host
