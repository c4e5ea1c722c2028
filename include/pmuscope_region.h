/* Counters of regions inside a program: what one entry, one packet, one row costs.
 *
 *     const char *events[] = {"instructions:u", "cycles:u"};
 *     pmuscope_set *set = pmuscope_setup(events, 2, 0);
 *     if (!set) { fprintf(stderr, "%s\n", pmuscope_message()); exit(3); }
 *     const pmuscope_region *parse = pmuscope_region_named(set, "parse");
 *     while (more()) {
 *         pmuscope_enter(parse);
 *         long rows = parse_block();
 *         pmuscope_exit(parse, rows);
 *     }
 *     pmuscope_unit row = {"row", 0};
 *     char *report = pmuscope_report(set, &row, 1, 0);
 *     fputs(report, stdout);
 *     pmuscope_free_text(report);
 *     pmuscope_free(set);
 *
 * Link with libpmuscope_c.a (and -lpthread -ldl -lm) or -lpmuscope_c. What is counted, how counters are
 * read and what the figures mean is in docs/region.md.
 *
 * Strings are UTF-8 and end with a zero byte. Functions may be called from any thread, but not from signal
 * handlers. No function ends the program; nothing is thrown.
 */
#ifndef PMUSCOPE_REGION_H
#define PMUSCOPE_REGION_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Events that are counted together. */
typedef struct pmuscope_set pmuscope_set;
/* A part of the program, by name. */
typedef struct pmuscope_region pmuscope_region;

/* A unit of work that counts are divided by. */
typedef struct pmuscope_unit {
    const char *name;
    double total; /* what all entries of a region did together; 0: what pmuscope_exit was told */
} pmuscope_unit;

/* What functions return; pmuscope_message says more. */
enum {
    PMUSCOPE_OK = 0,
    PMUSCOPE_EVENT = 1,       /* a text is no event */
    PMUSCOPE_UNAVAILABLE = 2, /* cannot be counted here, or not at the same time */
    PMUSCOPE_OPEN = 3,        /* a region of this thread is open */
    PMUSCOPE_MISUSE = 4,      /* NULL, a region that was not entered, a set of before a fork */
    PMUSCOPE_FAILED = 5       /* anything else */
};

/* Flags of pmuscope_setup. */
enum {
    PMUSCOPE_SYSTEM_CALLS = 1 /* read counters by read(2), even where it takes no system call */
};

/* What the last call in this thread that failed had to say, with what to type where that helps. Good
 * until the next call that fails in this thread. */
const char *pmuscope_message(void);

/* Its code, for functions that return NULL. */
int pmuscope_code(void);

/* PMUSCOPE_OK if hardware counters can be read here, for user code of this process at least. Events that
 * the kernel counts (task-clock, page-faults, context-switches) work without. */
int pmuscope_is_available(void);

/* Proves that events (perf's names) can be counted together all of the time, and starts them in this
 * thread. What this machine cannot count is "-" in every report, with the reason. NULL: none can be, or
 * not together, or one is no event. */
pmuscope_set *pmuscope_setup(const char *const *events, size_t count, unsigned flags);

/* Lets go of a set that is not used any more, and of its regions. NULL is nothing. */
void pmuscope_free(pmuscope_set *set);

/* Counts into this set in this thread from now on; stops the counters of the set before. NULL: into none.
 * A thread that counts for no set yet does it with the first region it enters. */
int pmuscope_switch_to(const pmuscope_set *set);

/* A region, the same for the same name, until its set is freed. NULL: NULL was given. */
const pmuscope_region *pmuscope_region_named(const pmuscope_set *set, const char *name);

/* Counts for the region from here on, in this thread. Where nothing can be counted, the report says how
 * often and why. */
int pmuscope_enter(const pmuscope_region *region);

/* Ends what this thread entered last into the region, which did so many units of work (0 if they are not
 * counted). Regions may end in any order. */
int pmuscope_exit(const pmuscope_region *region, double units);

/* What was counted so far in all threads: a table, or with json one object (pmuscope/region/1). To be
 * freed by pmuscope_free_text. NULL: NULL was given. */
char *pmuscope_report(const pmuscope_set *set, const pmuscope_unit *units, size_t count, int json);

/* Frees a report. NULL is nothing. */
void pmuscope_free_text(char *text);

#ifdef __cplusplus
}
#endif

#endif
