/* What sorting costs per number, in two threads.
 *
 *     cargo build --release -p pmuscope-region-c
 *     cc -O2 -Iinclude crates/region-c/examples/sort.c target/release/libpmuscope_c.a -lpthread -ldl -lm
 *     ./a.out instructions:u branch-misses:u
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "pmuscope_region.h"

enum { BLOCKS = 100, NUMBERS = 2000 };

static pmuscope_set *set;

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Marsaglia's xorshift. */
static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void *work(void *seed) {
    const pmuscope_region *fill = pmuscope_region_named(set, "fill");
    const pmuscope_region *sort = pmuscope_region_named(set, "sort");
    uint64_t numbers[NUMBERS];
    uint64_t state = *(uint64_t *)seed;
    int block, i;
    for (block = 0; block < BLOCKS; block++) {
        pmuscope_enter(fill);
        for (i = 0; i < NUMBERS; i++)
            numbers[i] = next(&state);
        pmuscope_exit(fill, NUMBERS);

        pmuscope_enter(sort);
        qsort(numbers, NUMBERS, sizeof numbers[0], compare);
        pmuscope_exit(sort, NUMBERS);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *usual[] = {"task-clock", "page-faults", "cycles:u"};
    const char *const *events = argc > 1 ? (const char *const *)argv + 1 : usual;
    uint64_t seeds[2] = {1, 2};
    pthread_t thread;
    pmuscope_unit number = {"number", 0};
    char *report;

    if (pmuscope_is_available() != PMUSCOPE_OK)
        fprintf(stderr, "no hardware counters: %s\n", pmuscope_message());
    set = pmuscope_setup(events, argc > 1 ? (size_t)argc - 1 : 3, 0);
    if (!set) {
        fprintf(stderr, "%s\n", pmuscope_message());
        return 3;
    }
    if (pthread_create(&thread, NULL, work, &seeds[1]) != 0)
        return 1;
    work(&seeds[0]);
    pthread_join(thread, NULL);

    report = pmuscope_report(set, &number, 1, 0);
    fputs(report, stdout);
    pmuscope_free_text(report);
    pmuscope_free(set);
    return 0;
}
