/* Cache lines that pairs of threads access in known ways, until standard input ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALIGNED __attribute__((aligned(64)))

struct stats { long hits; long misses; long spare[6]; };
ALIGNED struct stats data_stats = {1, 1, {0}};
ALIGNED static struct { long shared; long own; long spare[6]; } mixed;
ALIGNED static long counter[8];
ALIGNED static struct { int limit; int rate; long spare[7]; } settings;
ALIGNED static struct { long first; long second; long spare[6]; } alone;
ALIGNED static struct { struct __attribute__((packed)) { char tag; int first; int second; } in; char spare[55]; } packed;
ALIGNED static struct { unsigned a : 4, b : 4; unsigned spare[15]; } bits;
ALIGNED static struct { unsigned low : 8, high : 8; unsigned spare[15]; } bytes;
struct stats *heap;
ALIGNED static __thread struct stats own;
struct stats *volatile others;

#define ACCESS(x) (*(volatile __typeof__(x) *)&(x))

static void pause_(void) { nanosleep(&(struct timespec){0, 1000000}, 0); }

#define THREAD(name, what) static void *name(void *x) { for (;; pause_()) { what; } return x; }
THREAD(data_hits, ACCESS(data_stats.hits)++)
THREAD(data_misses, ACCESS(data_stats.misses)++)
THREAD(count, __atomic_fetch_add(&counter[0], 1, __ATOMIC_RELAXED))
THREAD(mix_shared, __atomic_fetch_add(&mixed.shared, 1, __ATOMIC_RELAXED))
THREAD(mix_both, __atomic_fetch_add(&mixed.shared, 1, __ATOMIC_RELAXED); ACCESS(mixed.own)++)
THREAD(read_limit, (void)ACCESS(settings.limit))
THREAD(read_rate, (void)ACCESS(settings.rate))
THREAD(use_alone, ACCESS(alone.first)++; ACCESS(alone.second)++)
THREAD(pack_first, packed.in.first++; __asm__ volatile("" ::: "memory"))
THREAD(pack_second, packed.in.second++; __asm__ volatile("" ::: "memory"))
THREAD(bit_a, bits.a++; __asm__ volatile("" ::: "memory"))
THREAD(bit_b, bits.b++; __asm__ volatile("" ::: "memory"))
THREAD(byte_low, bytes.low++; __asm__ volatile("" ::: "memory"))
THREAD(byte_high, bytes.high++; __asm__ volatile("" ::: "memory"))
THREAD(heap_hits, ACCESS(heap->hits)++)
THREAD(heap_misses, ACCESS(heap->misses)++)
THREAD(of_other, ACCESS(others->misses)++)

int main(void) {
    void *(*all[])(void *) = {data_hits, data_misses, count, count, mix_shared, mix_both, read_limit, read_rate,
        use_alone, pack_first, pack_second, bit_a, bit_b, byte_low, byte_high, heap_hits, heap_misses, of_other};
    heap = aligned_alloc(64, sizeof *heap);
    memset(heap, 0, sizeof *heap);
    others = &own;
    pthread_t thread;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) pthread_create(&thread, 0, all[i], 0);
    pthread_t reader;
    (void)reader;
    puts("ready");
    fflush(stdout);
    /* The thread whose thread-local variable another one accesses. */
    for (int i = 0;; i++) {
        ACCESS(own.hits)++;
        pause_();
        if (i == 60000) return 0;
    }
}
