/* Allocation sites that tests know by function and line. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 40000, LARGE = 300000 };

static char *volatile kept[8];

__attribute__((noipa)) static char *by_malloc(size_t size) {
    char *new = malloc(size); /* site by_malloc */
    memset(new, 1, size);
    return new;
}

__attribute__((noipa)) static char *by_calloc(size_t size) {
    char *new = calloc(4, size / 4); /* site by_calloc */
    memset(new, 1, size);
    return new;
}

__attribute__((noipa)) static char *by_realloc(char *old, size_t size) {
    char *new = realloc(old, size); /* site by_realloc */
    memset(new, 1, size);
    return new;
}

__attribute__((noipa)) static char *by_posix_memalign(size_t size) {
    void *new = NULL;
    if (posix_memalign(&new, 64, size)) /* site by_posix_memalign */
        abort();
    memset(new, 1, size);
    return new;
}

__attribute__((noipa)) static char *by_aligned_alloc(size_t size) {
    char *new = aligned_alloc(64, size); /* site by_aligned_alloc */
    memset(new, 1, size);
    return new;
}

static void *in_thread(void *unused) {
    kept[5] = by_malloc(SIZE + 512);
    return unused;
}

int main(void) {
    kept[0] = by_malloc(SIZE);
    kept[1] = by_calloc(LARGE); /* mapped, so that calloc does not write to it */
    kept[2] = by_realloc(by_malloc(16), SIZE + 128);
    kept[3] = by_posix_memalign(SIZE + 192);
    kept[4] = by_aligned_alloc(SIZE + 256);
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        /* Pages that it shared until now. */
        memset(kept[1], 2, LARGE);
        kept[6] = by_malloc(SIZE + 1024);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    for (int i = 0; i < 8; i++)
        free(kept[i]);
    return status;
}
