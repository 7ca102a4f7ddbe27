/*
 * A small and quick deflate for small files: bytes in, a zlib stream (RFC 1950, 1951) out.
 *
 * Matches are found greedily through one table of hashes, which is what the quickest level of every deflate does. Most
 * files are text, and are written at once, in codes that suit source code and prose. Where that does not shrink a file by
 * a quarter, it is done again with codes of its own, each block in the shortest of the three forms: dynamic codes, fixed
 * codes, or stored; so nothing grows by more than the headers of stored blocks.
 * `zlib` must inflate whatever comes out: the tests hold that for hostile inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 32768
#define LEAST_MATCH 4
#define MOST_MATCH 258
#define HASH_BITS 12
#define BLOCK_TOKENS 16384
#define LITERALS 286
#define DISTANCES 30
#define END_OF_BLOCK 256
#define LONGEST_CODE 15
/* Longer codes are legal, and do not fit into the first table of a quick reader (ISA-L): it then takes twice as long. */
#define LONGEST_LITERAL 12
#define LONGEST_DISTANCE 10
#define STORED_MOST 65535
#define TEXT_LEAST 512 /* below, the head of the codes for text is too much of it */

struct codes {
    uint16_t code[288]; /* reversed, as they are written */
    uint8_t length[288];
};

struct deflater {
    uint16_t table[1 << HASH_BITS];  /* the lower half of where the hash was last seen: small, so that it stays near */
    uint32_t tokens[BLOCK_TOKENS];   /* length << 16 | distance, or byte << 16 */
    uint32_t literals[288], distances[32];
    struct codes literal, distance;
};

struct bits {
    unsigned char *to;
    uint64_t held;
    int count;
};

static uint32_t load32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t load64(const unsigned char *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Writes out whole bytes; up to 8 behind them are overwritten. At most 7 bits stay. */
static inline void flush_bits(struct bits *bits) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(bits->to, &bits->held, 8);
#else
    for (int at = 0; at < 8; at++)
        bits->to[at] = (unsigned char)(bits->held >> at * 8);
#endif
    bits->to += bits->count >> 3;
    bits->held >>= bits->count & ~7;
    bits->count &= 7;
}

static inline void put_bits(struct bits *bits, uint64_t value, int count) {
    bits->held |= value << bits->count;
    bits->count += count;
}

/* -- symbols -- */

struct symbol {
    uint8_t code, extra;  /* of a length: the code less 257 */
    uint16_t base;
};

/* By length - 3; and by distance - 1, those from 256 on by their higher bits. */
static struct symbol length_symbols[256], distance_symbols[512];

static const struct symbol *distance_symbol(uint32_t distance) {
    return &distance_symbols[distance <= 256 ? distance - 1 : 256 + ((distance - 1) >> 7)];
}

static void make_symbols(void) {
    uint32_t base = 3;
    for (uint8_t code = 0; code < 29; code++) {
        uint8_t extra = code < 8 || code == 28 ? 0 : (uint8_t)(code / 4 - 1);
        for (uint32_t at = base - (code == 28); at < base + (1u << extra) && at <= MOST_MATCH; at++)
            length_symbols[at - 3] = (struct symbol){code, extra, (uint16_t)(base - (code == 28))};
        base += 1u << extra;
    }
    base = 1;
    for (uint8_t code = 0; code < DISTANCES; code++) {
        uint8_t extra = code < 4 ? 0 : (uint8_t)(code / 2 - 1);
        for (uint32_t at = base; at < base + (1u << extra); at += at <= 256 ? 1 : 128)
            distance_symbols[at <= 256 ? at - 1 : 256 + ((at - 1) >> 7)] = (struct symbol){code, extra, (uint16_t)base};
        base += 1u << extra;
    }
}

/* -- Huffman codes -- */

static void sort_by_count(uint32_t *rows, int count) {
    static const int gaps[] = {57, 23, 10, 4, 1};
    for (unsigned each = 0; each < sizeof gaps / sizeof *gaps; each++)
        for (int gap = gaps[each], at = gap; at < count; at++) {
            uint32_t row = rows[at];
            int to = at;
            for (; to >= gap && rows[to - gap] > row; to -= gap)
                rows[to] = rows[to - gap];
            rows[to] = row;
        }
}

/* The lengths of the best code for sorted weights, in their place (Moffat and Katajainen). */
static void best_lengths(uint32_t *weight, int count) {
    int leaf = 2, root = 0, next, used = 0, depth = 0, free_ = 1;
    weight[0] += weight[1];
    for (next = 1; next < count - 1; next++) {
        if (leaf >= count || weight[root] < weight[leaf])
            weight[next] = weight[root], weight[root++] = (uint32_t)next;
        else
            weight[next] = weight[leaf++];
        if (leaf >= count || (root < next && weight[root] < weight[leaf]))
            weight[next] += weight[root], weight[root++] = (uint32_t)next;
        else
            weight[next] += weight[leaf++];
    }
    weight[count - 2] = 0;
    for (next = count - 3; next >= 0; next--)
        weight[next] = weight[weight[next]] + 1;
    root = count - 2, next = count - 1;
    while (free_ > 0) {
        while (root >= 0 && (int)weight[root] == depth)
            used++, root--;
        while (free_ > used)
            weight[next--] = (uint32_t)depth, free_--;
        free_ = 2 * used, depth++, used = 0;
    }
}

static uint16_t reversed(uint32_t code, int length) {
    uint32_t value = 0;
    while (length--)
        value = value << 1 | (code & 1), code >>= 1;
    return (uint16_t)value;
}

static void assign_codes(struct codes *codes, int symbols) {
    uint32_t number[16] = {0}, next[16] = {0};
    for (int at = 0; at < symbols; at++)
        number[codes->length[at]]++;
    number[0] = 0;
    for (int length = 1; length <= LONGEST_CODE; length++)
        next[length] = (next[length - 1] + number[length - 1]) << 1;
    for (int at = 0; at < symbols; at++)
        if (codes->length[at])
            codes->code[at] = reversed(next[codes->length[at]]++, codes->length[at]);
}

/* Gives each symbol that occurs a code of at most `longest` bits. At least two get one: some inflaters want that. */
static void make_codes(struct codes *codes, uint32_t *counts, int symbols, int longest) {
    uint32_t rows[288], weight[288], number[33] = {0}, total = 0;
    int used = 0;
    for (int at = 0; at < symbols; at++)
        if (counts[at])
            rows[used++] = counts[at] << 9 | (uint32_t)at;
    for (int at = 0; used < 2; at++)
        if (!counts[at])
            rows[used++] = 1u << 9 | (uint32_t)at;
    sort_by_count(rows, used);
    for (int at = 0; at < used; at++)
        weight[at] = rows[at] >> 9;
    best_lengths(weight, used);
    for (int at = 0; at < used; at++)
        number[weight[at] > 32 ? 32 : weight[at]]++;
    for (int length = longest + 1; length <= 32; length++)
        number[longest] += number[length];
    for (int length = 1; length <= longest; length++)
        total += number[length] << (longest - length);
    for (; total > 1u << longest; total--) { /* too many long ones: a shorter leaf makes room for two */
        number[longest]--;
        for (int length = longest - 1; length; length--)
            if (number[length]) {
                number[length]--, number[length + 1] += 2;
                break;
            }
    }
    memset(codes->length, 0, sizeof codes->length);
    for (int length = longest, at = 0; length; length--)
        for (uint32_t each = number[length]; each; each--)
            codes->length[rows[at++] & 511] = (uint8_t)length;
    assign_codes(codes, symbols);
}

/* -- the head of a block with codes of its own -- */

struct head {
    struct codes codes;
    uint16_t runs[LITERALS + DISTANCES]; /* symbol | extra << 8 */
    int run_count, literals, distances, lengths;
    uint32_t bits;
};

static const uint8_t length_order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
static const uint8_t run_bits[3] = {2, 3, 7};

static void make_head(struct head *head, const struct codes *literal, const struct codes *distance) {
    uint8_t all[LITERALS + DISTANCES];
    uint32_t counts[19] = {0};
    head->literals = LITERALS, head->distances = DISTANCES, head->lengths = 19, head->run_count = 0;
    while (head->literals > 257 && !literal->length[head->literals - 1])
        head->literals--;
    while (head->distances > 1 && !distance->length[head->distances - 1])
        head->distances--;
    int count = head->literals + head->distances;
    memcpy(all, literal->length, (size_t)head->literals);
    memcpy(all + head->literals, distance->length, (size_t)head->distances);
    for (int at = 0; at < count;) {
        int same = 1, most = count - at, symbol = all[at], extra = 0;
        while (same < most && all[at + same] == all[at])
            same++;
        if (!all[at] && same >= 3) {
            same = same > 138 ? 138 : same;
            symbol = same < 11 ? 17 : 18, extra = same - (same < 11 ? 3 : 11);
        } else if (at && all[at] == all[at - 1] && same >= 3) {
            same = same > 6 ? 6 : same;
            symbol = 16, extra = same - 3;
        } else {
            same = 1;
        }
        counts[symbol]++;
        head->runs[head->run_count++] = (uint16_t)(symbol | extra << 8);
        at += same;
    }
    make_codes(&head->codes, counts, 19, 7);
    while (head->lengths > 4 && !head->codes.length[length_order[head->lengths - 1]])
        head->lengths--;
    head->bits = 14 + 3 * (uint32_t)head->lengths;
    for (int at = 0; at < 19; at++)
        head->bits += counts[at] * (head->codes.length[at] + (at < 16 ? 0u : run_bits[at - 16]));
}

static void put_head(struct bits *bits, const struct head *head) {
    put_bits(bits, (uint64_t)(head->literals - 257), 5);
    put_bits(bits, (uint64_t)(head->distances - 1), 5);
    put_bits(bits, (uint64_t)(head->lengths - 4), 4);
    flush_bits(bits);
    for (int at = 0; at < head->lengths; at++) {
        put_bits(bits, head->codes.length[length_order[at]], 3);
        flush_bits(bits);
    }
    for (int at = 0; at < head->run_count; at++) {
        int symbol = head->runs[at] & 255;
        put_bits(bits, head->codes.code[symbol], head->codes.length[symbol]);
        if (symbol >= 16)
            put_bits(bits, head->runs[at] >> 8, run_bits[symbol - 16]);
        flush_bits(bits);
    }
}

/* -- codes that are always the same -- */

/* How long the codes for text are, 'a' for one bit: of literals and lengths, then of distances. They were counted in
   source code, configuration and prose in several languages; every symbol has a code, so that any bytes can be written. */
static const char text_lengths[] =
    "lllllllllkgllllllllllllllllllllldkijkljhhgijghfghhhijjjjjjhiihijkhihhhijihljhihhhlhhhijjkjlijilgifgf"
    "fdggfejhffeefjeeefhghgkiiillllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll"
    "llllllllllllllllllllllllllllllllllllllllllllllllllllllllklddeeffgfgghghiiijjkkllllllllfjjjihhgeedddd"
    "dddddddddeefgjjj";

static struct codes fixed_literal, fixed_distance, text_literal, text_distance;
static struct head text_head;

static void set_lengths(struct codes *codes, int symbols, const char *lengths) {
    for (int at = 0; at < symbols; at++)
        codes->length[at] = (uint8_t)(lengths[at] - 'a' + 1);
    assign_codes(codes, symbols);
}

__attribute__((constructor)) static void make_tables(void) {
    make_symbols();
    for (int at = 0; at < 288; at++)
        fixed_literal.length[at] = at < 144 ? 8 : at < 256 ? 9 : at < 280 ? 7 : 8;
    assign_codes(&fixed_literal, 288);
    for (int at = 0; at < DISTANCES; at++)
        fixed_distance.length[at] = 5;
    assign_codes(&fixed_distance, DISTANCES);
    set_lengths(&text_literal, LITERALS, text_lengths);
    set_lengths(&text_distance, DISTANCES, text_lengths + LITERALS);
    make_head(&text_head, &text_literal, &text_distance);
}

/* -- blocks -- */

static void put_stored(struct bits *bits, const unsigned char *from, size_t size, int last) {
    do {
        size_t part = size < STORED_MOST ? size : STORED_MOST;
        put_bits(bits, (uint64_t)(last && part == size), 3);
        bits->count = (bits->count + 7) & ~7;
        put_bits(bits, part, 16);
        put_bits(bits, part ^ 0xffff, 16);
        flush_bits(bits);
        memcpy(bits->to, from, part);
        bits->to += part, from += part, size -= part;
    } while (size);
}

static inline void put_match(struct bits *bits, uint32_t length, uint32_t far, const struct codes *literal,
                             const struct codes *distance) {
    const struct symbol *reach = &length_symbols[length - 3], *back = distance_symbol(far);
    put_bits(bits, literal->code[257 + reach->code], literal->length[257 + reach->code]);
    put_bits(bits, length - reach->base, reach->extra);
    put_bits(bits, distance->code[back->code], distance->length[back->code]);
    put_bits(bits, far - back->base, back->extra);
    flush_bits(bits);
}

static void put_tokens(struct bits *bits, const struct deflater *self, uint32_t count, const struct codes *literal,
                       const struct codes *distance) {
    struct bits here = *bits;
    for (uint32_t at = 0; at < count; at++) {
        uint32_t token = self->tokens[at], far = token & 0xffff;
        if (far) {
            put_match(&here, token >> 16, far, literal, distance);
        } else {
            put_bits(&here, literal->code[token >> 16], literal->length[token >> 16]);
            flush_bits(&here);
        }
    }
    put_bits(&here, literal->code[END_OF_BLOCK], literal->length[END_OF_BLOCK]);
    flush_bits(&here);
    *bits = here;
}

static uint32_t cost(const uint32_t *counts, int symbols, const struct codes *codes) {
    uint32_t total = 0;
    for (int at = 0; at < symbols; at++)
        total += counts[at] * codes->length[at];
    return total;
}

static void put_block(struct deflater *self, struct bits *bits, uint32_t count, const unsigned char *from, size_t size,
                      int last) {
    struct head head;
    uint32_t fixed, dynamic;
    self->literals[END_OF_BLOCK] = 1;
    make_codes(&self->literal, self->literals, LITERALS, LONGEST_LITERAL);
    make_codes(&self->distance, self->distances, DISTANCES, LONGEST_DISTANCE);
    make_head(&head, &self->literal, &self->distance);
    fixed = cost(self->literals, LITERALS, &fixed_literal) + cost(self->distances, DISTANCES, &fixed_distance);
    dynamic = cost(self->literals, LITERALS, &self->literal) + cost(self->distances, DISTANCES, &self->distance);
    dynamic += head.bits;
    uint64_t extra = 0, stored = (uint64_t)(size + 5 * (size / STORED_MOST + 1)) * 8;
    for (int at = 265; at < 285; at++)
        extra += (uint64_t)self->literals[at] * (uint64_t)((at - 261) / 4);
    for (int at = 4; at < DISTANCES; at++)
        extra += (uint64_t)self->distances[at] * (uint64_t)(at / 2 - 1);
    if (stored <= extra + (fixed < dynamic ? fixed : dynamic)) {
        put_stored(bits, from, size, last);
    } else if (fixed <= dynamic) {
        put_bits(bits, (uint64_t)(last | 1 << 1), 3);
        put_tokens(bits, self, count, &fixed_literal, &fixed_distance);
    } else {
        put_bits(bits, (uint64_t)(last | 2 << 1), 3);
        put_head(bits, &head);
        put_tokens(bits, self, count, &self->literal, &self->distance);
    }
    memset(self->literals, 0, sizeof self->literals);
    memset(self->distances, 0, sizeof self->distances);
}

/* How many bytes are the same at two places, of which the first lies before the other. */
static uint32_t match_length(const unsigned char *before, const unsigned char *here, const unsigned char *end) {
    const unsigned char *start = here;
    if (end - here > MOST_MATCH)
        end = here + MOST_MATCH;
    while (end - here >= 8) {
        uint64_t differ = load64(before) ^ load64(here);
        if (differ) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return (uint32_t)(here - start) + (uint32_t)(__builtin_ctzll(differ) >> 3);
#else
            return (uint32_t)(here - start) + (uint32_t)(__builtin_clzll(differ) >> 3);
#endif
        }
        before += 8, here += 8;
    }
    while (here < end && *before == *here)
        before++, here++;
    return (uint32_t)(here - start);
}

static uint32_t hash(uint32_t four) { return four * 2654435761u >> (32 - HASH_BITS); }

static uint32_t adler32(const unsigned char *data, size_t size) {
    uint32_t low = 1, high = 0;
    while (size) {
        size_t part = size < 5552 ? size : 5552; /* so many can be summed up before 32 bits overflow */
        size -= part;
        for (; part >= 8; part -= 8, data += 8) {
            high += 8 * low + 8u * data[0] + 7u * data[1] + 6u * data[2] + 5u * data[3] + 4u * data[4] + 3u * data[5] +
                    2u * data[6] + data[7];
            low += (uint32_t)data[0] + data[1] + data[2] + data[3] + data[4] + data[5] + data[6] + data[7];
        }
        while (part--)
            low += *data++, high += low;
        low %= 65521, high %= 65521;
    }
    return high << 16 | low;
}

/* The most that `deflate` writes, the bytes that it may spoil behind its end included. */
#define DEFLATE_MOST(size) ((size) + 5 * ((size) / BLOCK_TOKENS + (size) / STORED_MOST + 2) + 24)

/* How far a file was deflated. */
struct course {
    const unsigned char *from, *at, *last, *end;
    uint32_t count, misses;
    struct bits bits;
    unsigned char *stop;
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE void take_byte(struct deflater *self, struct course *go, int direct) {
    unsigned char byte = *go->at++;
    if (direct) {
        put_bits(&go->bits, text_literal.code[byte], text_literal.length[byte]);
        flush_bits(&go->bits);
    } else {
        self->literals[byte]++;
        self->tokens[go->count++] = (uint32_t)byte << 16;
    }
}

ALWAYS_INLINE int has_room(const struct course *go, int direct) {
    return direct ? go->bits.to < go->stop : go->count < BLOCK_TOKENS;
}

/* Goes on to the end, or until there is no more room: written at once as text, or as tokens of a block. */
ALWAYS_INLINE void go_on(struct deflater *self, struct course *given, int direct) {
    struct course go = *given;
    while (go.at < go.last && has_room(&go, direct)) {
        /* Any place within the window may be asked whether it holds the same bytes: what the table says is a guess. */
        uint32_t four = load32(go.at);
        uint16_t here = (uint16_t)(go.at - go.from), *slot = &self->table[hash(four)];
        uint32_t far = (uint16_t)(here - *slot);
        *slot = here;
        if (far - 1 >= WINDOW || load32(go.at - far) != four) {
            /* Where nothing matches for long, nothing will: every second byte is not even looked up, then more. */
            uint32_t skip = go.misses++ >> 7;
            take_byte(self, &go, direct);
            for (; skip && go.at < go.last && has_room(&go, direct); skip--)
                take_byte(self, &go, direct);
            continue;
        }
        uint32_t length = match_length(go.at - far, go.at, go.end);
        if (direct) {
            put_match(&go.bits, length, far, &text_literal, &text_distance);
        } else {
            self->tokens[go.count++] = length << 16 | far;
            self->literals[257 + length_symbols[length - 3].code]++;
            self->distances[distance_symbol(far)->code]++;
        }
        self->table[hash(load32(go.at + 1))] = (uint16_t)(here + 1);
        go.at += length, go.misses = 0;
        if (go.at < go.last)
            self->table[hash(load32(go.at - 1))] = (uint16_t)(here + length - 1);
    }
    while (go.at >= go.last && go.at < go.end && has_room(&go, direct))
        take_byte(self, &go, direct);
    *given = go;
}

static void begin_course(struct deflater *self, struct course *go, const unsigned char *from, size_t size,
                         unsigned char *to) {
    memset(self->table, 0, sizeof self->table);
    go->from = go->at = from, go->end = from + size;
    /* Behind `last` no match begins, and no byte is hashed. */
    go->last = size >= 2 * LEAST_MATCH ? go->end - 2 * LEAST_MATCH : from;
    go->count = go->misses = 0;
    go->bits = (struct bits){to + 2, 0, 0};
    to[0] = 0x78, to[1] = 0x01;
}

static size_t end_course(struct course *go, const unsigned char *to) {
    go->bits.count = (go->bits.count + 7) & ~7;
    flush_bits(&go->bits);
    store_be32(go->bits.to, adler32(go->from, (size_t)(go->end - go->from)));
    return (size_t)(go->bits.to + 4 - to);
}

static size_t deflate_text(struct deflater *self, const unsigned char *from, size_t size, unsigned char *to) {
    struct course go;
    begin_course(self, &go, from, size, to);
    go.stop = to + size - size / 4;
    put_bits(&go.bits, 1 | 2 << 1, 3);
    put_head(&go.bits, &text_head);
    go_on(self, &go, 1);
    if (go.at < go.end)
        return 0;
    put_bits(&go.bits, text_literal.code[END_OF_BLOCK], text_literal.length[END_OF_BLOCK]);
    return end_course(&go, to);
}

/* Writes a zlib stream of at most DEFLATE_MOST(size) bytes and returns its length. */
static size_t deflate(struct deflater *self, const unsigned char *from, size_t size, unsigned char *to) {
    struct course go;
    const unsigned char *start = from;
    size_t length = size >= TEXT_LEAST ? deflate_text(self, from, size, to) : 0;
    if (length)
        return length;
    begin_course(self, &go, from, size, to);
    memset(self->literals, 0, sizeof self->literals);
    memset(self->distances, 0, sizeof self->distances);
    do {
        go_on(self, &go, 0);
        put_block(self, &go.bits, go.count, start, (size_t)(go.at - start), go.at == go.end);
        start = go.at, go.count = 0;
    } while (go.at < go.end);
    return end_course(&go, to);
}
