/*
 * SHA-1 of an object as git hashes it, with the processor's own instructions where it has them.
 *
 * Both ways give the same digest; a test asks each for the same bytes.
 */
#include <stdint.h>
#include <string.h>

static void store_be32(unsigned char *to, uint32_t value) {
    to[0] = (unsigned char)(value >> 24), to[1] = (unsigned char)(value >> 16);
    to[2] = (unsigned char)(value >> 8), to[3] = (unsigned char)value;
}

static uint32_t load_be32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t rotated(uint32_t value, int by) { return value << by | value >> (32 - by); }

static void sha1_plain(uint32_t state[5], const unsigned char *data, size_t blocks) {
    for (; blocks; blocks--, data += 64) {
        uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
        for (int at = 0; at < 16; at++)
            w[at] = load_be32(data + at * 4);
        for (int at = 16; at < 80; at++)
            w[at] = rotated(w[at - 3] ^ w[at - 8] ^ w[at - 14] ^ w[at - 16], 1);
        for (int at = 0; at < 80; at++) {
            uint32_t mixed, key;
            if (at < 20)
                mixed = (b & c) | (~b & d), key = 0x5a827999;
            else if (at < 40)
                mixed = b ^ c ^ d, key = 0x6ed9eba1;
            else if (at < 60)
                mixed = (b & c) | (b & d) | (c & d), key = 0x8f1bbcdc;
            else
                mixed = b ^ c ^ d, key = 0xca62c1d6;
            uint32_t next = rotated(a, 5) + mixed + e + key + w[at];
            e = d, d = c, c = rotated(b, 30), b = a, a = next;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_SHA_NI 1
#include <cpuid.h>
#include <immintrin.h>

/*
 * Hashes blocks of one or two at once. Each round waits for the one before it, and the processor has room for those of another
 * hash meanwhile. `lanes` is known where this is called, so that nothing is left of the loops over it.
 */
#define EACH _Pragma("GCC unroll 2") for (int at = 0; at < lanes; at++)
/* Four rounds: `now` holds their words, and the schedule of the words to come is advanced beside them. */
#define FOUR(kind, e_in, e_out, now, next, behind, farther)                                                            \
    EACH {                                                                                                             \
        e_in[at] = _mm_sha1nexte_epu32(e_in[at], now[at]);                                                             \
        e_out[at] = abcd[at];                                                                                          \
        next[at] = _mm_sha1msg2_epu32(next[at], now[at]);                                                              \
        abcd[at] = _mm_sha1rnds4_epu32(abcd[at], e_in[at], kind);                                                      \
        behind[at] = _mm_sha1msg1_epu32(behind[at], now[at]);                                                          \
        farther[at] = _mm_xor_si128(farther[at], now[at]);                                                             \
    }

__attribute__((target("sha,sse4.1"), always_inline)) static inline void sha1_lanes(const int lanes, uint32_t *const state[],
                                                                                   const unsigned char *const data[],
                                                                                   size_t blocks) {
    const __m128i order = _mm_set_epi64x(0x0001020304050607LL, 0x08090a0b0c0d0e0fLL);
    __m128i abcd[2], e0[2], e1[2], m0[2], m1[2], m2[2], m3[2], abcd_before[2], e_before[2];
    EACH {
        abcd[at] = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state[at]), 0x1b);
        e0[at] = _mm_set_epi32((int)state[at][4], 0, 0, 0);
    }
    for (size_t done = 0; done < blocks; done++) {
        EACH {
            const __m128i *in = (const __m128i *)(const void *)(data[at] + done * 64);
            abcd_before[at] = abcd[at], e_before[at] = e0[at];
            m0[at] = _mm_shuffle_epi8(_mm_loadu_si128(in), order);
            m1[at] = _mm_shuffle_epi8(_mm_loadu_si128(in + 1), order);
            m2[at] = _mm_shuffle_epi8(_mm_loadu_si128(in + 2), order);
            m3[at] = _mm_shuffle_epi8(_mm_loadu_si128(in + 3), order);
        }
        EACH { /* rounds 0 to 11, before the schedule is needed */
            e0[at] = _mm_add_epi32(e0[at], m0[at]);
            e1[at] = abcd[at];
            abcd[at] = _mm_sha1rnds4_epu32(abcd[at], e0[at], 0);
        }
        EACH {
            e1[at] = _mm_sha1nexte_epu32(e1[at], m1[at]);
            e0[at] = abcd[at];
            abcd[at] = _mm_sha1rnds4_epu32(abcd[at], e1[at], 0);
            m0[at] = _mm_sha1msg1_epu32(m0[at], m1[at]);
        }
        EACH {
            e0[at] = _mm_sha1nexte_epu32(e0[at], m2[at]);
            e1[at] = abcd[at];
            abcd[at] = _mm_sha1rnds4_epu32(abcd[at], e0[at], 0);
            m1[at] = _mm_sha1msg1_epu32(m1[at], m2[at]);
            m0[at] = _mm_xor_si128(m0[at], m2[at]);
        }
        FOUR(0, e1, e0, m3, m0, m2, m1)
        FOUR(0, e0, e1, m0, m1, m3, m2)
        FOUR(1, e1, e0, m1, m2, m0, m3)
        FOUR(1, e0, e1, m2, m3, m1, m0)
        FOUR(1, e1, e0, m3, m0, m2, m1)
        FOUR(1, e0, e1, m0, m1, m3, m2)
        FOUR(1, e1, e0, m1, m2, m0, m3)
        FOUR(2, e0, e1, m2, m3, m1, m0)
        FOUR(2, e1, e0, m3, m0, m2, m1)
        FOUR(2, e0, e1, m0, m1, m3, m2)
        FOUR(2, e1, e0, m1, m2, m0, m3)
        FOUR(2, e0, e1, m2, m3, m1, m0)
        FOUR(3, e1, e0, m3, m0, m2, m1)
        FOUR(3, e0, e1, m0, m1, m3, m2)
        FOUR(3, e1, e0, m1, m2, m0, m3)
        FOUR(3, e0, e1, m2, m3, m1, m0)
        EACH { /* the last four */
            e1[at] = _mm_sha1nexte_epu32(e1[at], m3[at]);
            e0[at] = abcd[at];
            abcd[at] = _mm_sha1rnds4_epu32(abcd[at], e1[at], 3);
            e0[at] = _mm_sha1nexte_epu32(e0[at], e_before[at]);
            abcd[at] = _mm_add_epi32(abcd[at], abcd_before[at]);
        }
    }
    EACH {
        _mm_storeu_si128((__m128i *)(void *)state[at], _mm_shuffle_epi32(abcd[at], 0x1b));
        state[at][4] = (uint32_t)_mm_extract_epi32(e0[at], 3);
    }
}
#undef FOUR
#undef EACH

__attribute__((target("sha,sse4.1"))) static void sha1_quick(uint32_t state[5], const unsigned char *data, size_t blocks) {
    sha1_lanes(1, (uint32_t *const[]){state}, (const unsigned char *const[]){data}, blocks);
}

__attribute__((target("sha,sse4.1"))) static void sha1_two(uint32_t one[5], const unsigned char *data, uint32_t other[5],
                                                           const unsigned char *more, size_t blocks) {
    sha1_lanes(2, (uint32_t *const[]){one, other}, (const unsigned char *const[]){data, more}, blocks);
}

static int has_sha_ni(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1 && __builtin_cpu_supports("sse4.1");
}
#else
#define HAS_SHA_NI 0
static int has_sha_ni(void) { return 0; }
#endif

/* Hashes a header of fewer than 64 bytes and what follows it; `quick` where the processor can. */
static void sha1_of(const unsigned char *header, size_t header_size, const unsigned char *data, size_t size,
                    unsigned char digest[20], int quick) {
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    void (*blocks)(uint32_t[5], const unsigned char *, size_t) = sha1_plain;
#if HAS_SHA_NI
    if (quick)
        blocks = sha1_quick;
#else
    (void)quick;
#endif
    unsigned char rest[128];
    uint64_t bits = ((uint64_t)header_size + size) * 8;
    size_t held = header_size, taken = size < 64 - held ? size : 64 - held;
    memset(rest, 0, sizeof rest);
    memcpy(rest, header, header_size);
    if (taken)
        memcpy(rest + held, data, taken);
    held += taken, data += taken, size -= taken;
    if (held == 64) {
        blocks(state, rest, 1);
        blocks(state, data, size / 64);
        data += size / 64 * 64, held = size % 64;
        memset(rest, 0, sizeof rest);
        if (held)
            memcpy(rest, data, held);
    }
    rest[held] = 0x80;
    size_t end = held < 56 ? 64 : 128;
    store_be32(rest + end - 8, (uint32_t)(bits >> 32));
    store_be32(rest + end - 4, (uint32_t)bits);
    blocks(state, rest, end / 64);
    for (int at = 0; at < 5; at++)
        store_be32(digest + at * 4, state[at]);
}
