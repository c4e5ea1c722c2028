/* Three functions that take 60, 30 and 10 % of its CPU time, for as many seconds as asked. Their calls have
   lengths of chance: a clock cannot fall into step with them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sink;

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

#define WORK(name, step) \
    __attribute__((noinline)) void name(uint64_t rounds) { \
        uint64_t x = 88172645463325252u; \
        for (uint64_t i = 0; i < rounds; i++) { step; } \
        sink += x; \
    }
WORK(many, x ^= x << 13; x ^= x >> 7; x ^= x << 17)
WORK(some, x = x * 6364136223846793005u + 1442695040888963407u)
WORK(few, x += x >> 3; x ^= i)

int main(int argc, char **argv) {
    void (*functions[3])(uint64_t) = {many, some, few};
    const double wanted[3] = {0.6, 0.3, 0.1};
    double spent[3] = {0, 0, 0}, all = 0, seconds = argc > 1 ? atof(argv[1]) : 1;
    while (all < seconds) {
        int next = 0;
        for (int i = 1; i < 3; i++) {
            if (spent[i] / wanted[i] < spent[next] / wanted[next]) next = i;
        }
        double before = cpu_seconds();
        functions[next](10000 + rand() % 400000);
        double took = cpu_seconds() - before;
        spent[next] += took;
        all += took;
    }
    printf("many %.6f some %.6f few %.6f\n", spent[0] / all, spent[1] / all, spent[2] / all);
    return 0;
}
