-- Memory and CPU time by {by}, host and node, for the {limit} with most remote memory over all hosts.
WITH per_node AS (
    SELECT {by}{and_host}, node, sum(observations) AS observations, sum(processes) AS processes, sum(cpu_us) AS cpu_us,
        sum(memory_bytes) AS memory_bytes, sum(local_bytes) AS local_bytes, sum(idle_bytes) AS idle_bytes
    FROM locality_filled
    GROUP BY {by}{and_host}, node),
largest AS (
    SELECT {by}, sum(memory_bytes) - sum(local_bytes) AS remote_bytes
    FROM per_node
    GROUP BY {by}
    ORDER BY remote_bytes DESC, {by}
    LIMIT {limit})
SELECT {shown}{and_host}, node, observations, processes, cpu_us, memory_bytes, local_bytes, idle_bytes
FROM per_node
JOIN largest USING ({by})
ORDER BY remote_bytes DESC, {order}{and_host}, node
