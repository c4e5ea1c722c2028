/* A program to be watched: threads that write to variables so often, once a line has come from standard
 * input (or at once, where there is none). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct stats {
    int kind;
    unsigned long done;
};

struct stats server;
long counter;
volatile int level = 7;
char text[16];

static long writes;
static long pause_ns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* With a frame, which GCC leaves out of so short a function, whatever the flags. */
__attribute__((noinline)) void step(void) {
    __asm__ volatile("" : : "r"(__builtin_frame_address(0)));
    counter++; /* the line of writes */
}

struct job {
    long id;
    long done;
};

/* An object without a name. */
__attribute__((noinline)) void finish(long unused, struct job *job) {
    job->done += unused + 1;
}

static void rest(void) {
    struct timespec pause = {0, pause_ns};
    if (pause_ns)
        nanosleep(&pause, NULL);
}

static void *work(void *unused) {
    for (long i = 0; i < writes; i++) {
        pthread_mutex_lock(&lock);
        step();
        pthread_mutex_unlock(&lock);
        rest();
    }
    return unused;
}

static void start(pthread_t *threads, int number) {
    for (int i = 0; i < number; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            exit(9);
}

/* threads writes pause_ns halves: each thread writes so often, with such a pause behind each; with a
 * fourth word half of the threads are there before the line comes */
int main(int count, char **words) {
    int threads = count > 1 ? atoi(words[1]) : 1;
    writes = count > 2 ? atol(words[2]) : 100;
    pause_ns = count > 3 ? atol(words[3]) : 0;
    pthread_t *all = calloc(threads, sizeof *all);
    char line[16] = "";
    int first = 0;
    if (count > 4) {
        /* They wait for each other and for us: nothing is written before the line has come. */
        first = threads / 2;
        pthread_mutex_lock(&lock);
        start(all, first);
    }
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        line[0] = 0;
    if (count > 4)
        pthread_mutex_unlock(&lock);
    start(all + first, threads - first);
    server.done += 1;
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    level = -3;
    level = -3;
    level = 12;
    if (line[0] == 'f' && fork() == 0) {
        counter = 1;
        return 0;
    }
    if (line[0] == 'e' && fork() == 0) {
        /* Another program, which happens to have the same addresses. */
        execl("/proc/self/exe", "watched", "1", "5", (char *)NULL);
        return 1;
    }
    if (line[0] == 'f' || line[0] == 'e')
        wait(NULL);
    if (line[0] == 'o') {
        struct job *job = calloc(1, sizeof *job);
        struct timespec pause = {0, 20000000};
        for (int i = 0; i < 40; i++) {
            finish(0, job);
            nanosleep(&pause, NULL);
        }
        printf("done %ld\n", job->done);
    }
    /* The kernel writes here. */
    FILE *zero = fopen("/dev/zero", "r");
    if (zero && read(fileno(zero), text, 8) == 8)
        printf("counter %ld\n", counter);
    return 0;
}
