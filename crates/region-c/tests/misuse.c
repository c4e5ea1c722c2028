/* What a program may do wrong, and what it may do after a fork: errors, no crash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmuscope_region.h"

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, pmuscope_message()); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static void child_of(pmuscope_set *parents, const pmuscope_region *region) {
    const char *events[] = {"context-switches"};
    pmuscope_set *own;
    const pmuscope_region *wait;
    char *report;
    /* The parent's region was open: it ends here without a trace. */
    EXPECT(pmuscope_exit(region, 1) == PMUSCOPE_OK);
    EXPECT(pmuscope_enter(region) == PMUSCOPE_OK);
    EXPECT(pmuscope_exit(region, 1) == PMUSCOPE_OK);
    EXPECT(pmuscope_switch_to(parents) == PMUSCOPE_MISUSE);
    EXPECT(strstr(pmuscope_message(), "fork") != NULL);
    own = pmuscope_setup(events, 1, 0);
    EXPECT(own != NULL);
    wait = pmuscope_region_named(own, "wait");
    EXPECT(pmuscope_enter(wait) == PMUSCOPE_OK);
    usleep(200);
    EXPECT(pmuscope_exit(wait, 0) == PMUSCOPE_OK);
    report = pmuscope_report(own, NULL, 0, 1);
    EXPECT(strstr(report, "\"entries\":1,") != NULL);
    pmuscope_free_text(report);
    pmuscope_free(own);
    exit(0);
}

int main(void) {
    const char *events[] = {"context-switches"};
    const char *wrong[] = {"tusk-clock"};
    const char *null[] = {NULL};
    pmuscope_set *set;
    const pmuscope_region *outer;
    char *report;
    pid_t child;
    int status;

    EXPECT(pmuscope_setup(wrong, 1, 0) == NULL);
    EXPECT(strstr(pmuscope_message(), "tusk-clock") != NULL);
    EXPECT(pmuscope_code() == PMUSCOPE_EVENT);
    EXPECT(pmuscope_setup(NULL, 0, 0) == NULL);
    EXPECT(pmuscope_setup(NULL, 1, 0) == NULL);
    EXPECT(pmuscope_setup(null, 1, 0) == NULL);
    EXPECT(pmuscope_setup(events, 1, 6) == NULL);
    EXPECT(strstr(pmuscope_message(), "flags") != NULL);
    EXPECT(pmuscope_region_named(NULL, "a") == NULL);
    EXPECT(pmuscope_code() == PMUSCOPE_MISUSE);
    EXPECT(pmuscope_enter(NULL) == PMUSCOPE_MISUSE);
    EXPECT(pmuscope_report(NULL, NULL, 0, 0) == NULL);
    pmuscope_free(NULL);
    pmuscope_free_text(NULL);

    set = pmuscope_setup(events, 1, PMUSCOPE_SYSTEM_CALLS);
    EXPECT(set != NULL);
    EXPECT(pmuscope_region_named(set, NULL) == NULL);
    outer = pmuscope_region_named(set, "outer");
    EXPECT(outer != NULL && outer == pmuscope_region_named(set, "outer"));
    EXPECT(pmuscope_exit(outer, 1) == PMUSCOPE_MISUSE);
    EXPECT(pmuscope_enter(outer) == PMUSCOPE_OK);
    EXPECT(pmuscope_switch_to(NULL) == PMUSCOPE_OPEN);
    child = fork();
    if (child == 0)
        child_of(set, outer);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(pmuscope_exit(outer, 1) == PMUSCOPE_OK);
    EXPECT(pmuscope_switch_to(NULL) == PMUSCOPE_OK);
    EXPECT(pmuscope_switch_to(set) == PMUSCOPE_OK);
    report = pmuscope_report(set, NULL, 0, 1);
    EXPECT(strstr(report, "\"entries\":1,") != NULL);
    puts(report);
    pmuscope_free_text(report);
    pmuscope_free(set);
    return 0;
}
