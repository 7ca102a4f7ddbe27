/*
 * The way back: a zlib stream (RFC 1950, 1951) in, bytes out, as many as are asked for or none at all.
 *
 * What comes in is anybody's: no number in it is believed, nothing is read behind its end, nothing written behind the bytes
 * that were asked for and the room that follows them. Codes of up to FIRST_BITS bits are found in one step, the few longer ones bit
 * by bit. Whatever zlib would not inflate is refused here; some of what it would (a preset dictionary) is too, and left to it.
 */
#define FIRST_BITS 11
#define LENGTH_CODES 19
/* What may be overwritten behind the bytes that were asked for. */
#define INFLATE_SLACK 16

/* Of each code: its length and the bits that follow it, what it is, and the byte, or the least length or distance. */
struct meaning {
    uint8_t bits, extra;
    uint16_t base;
};
enum { IS_LENGTH = 0x80, IS_END = 0x40, IS_WRONG = 0x20, EXTRA_BITS = 0x0f };

struct inflate_codes {
    struct meaning first[1 << FIRST_BITS]; /* by the next bits; of 0 bits: the code is longer */
    uint16_t number[16];                   /* how many codes of each length */
    struct meaning of[288];                /* by their codes, the shortest first */
};

struct inflater {
    struct inflate_codes literal, distance, length;
    uint8_t lengths[288 + 32], known[288 + 32]; /* those that are being read, and those that the codes were made of */
    int literals, distances;                    /* how many of the latter; 0 where they are none */
};

struct reading_bits {
    const unsigned char *at, *end;
    uint64_t held;
    int count;   /* of bits held */
    int missing; /* bytes that were not there, and were taken for zeros */
};

/* Holds at least 56 bits afterwards. */
static inline void more_bits(struct reading_bits *in) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (in->end - in->at >= 8) {
        in->held |= load64(in->at) << in->count;
        in->at += (63 - in->count) >> 3;
        in->count |= 56;
        return;
    }
#endif
    while (in->count < 56) {
        if (in->at < in->end)
            in->held |= (uint64_t)*in->at++ << in->count;
        else
            in->missing++;
        in->count += 8;
    }
}

static inline uint32_t take_bits(struct reading_bits *in, int count) {
    uint32_t value = (uint32_t)(in->held & ((UINT64_C(1) << count) - 1));
    in->held >>= count, in->count -= count;
    return value;
}

/* Whether more was taken than there was. */
static int is_cut(const struct reading_bits *in) { return in->missing > in->count >> 3; }

static struct meaning literal_meaning(int symbol) {
    if (symbol < END_OF_BLOCK)
        return (struct meaning){0, 0, (uint16_t)symbol};
    if (symbol == END_OF_BLOCK || symbol > 285)
        return (struct meaning){0, symbol == END_OF_BLOCK ? IS_END : IS_WRONG, 0};
    int code = symbol - 257, extra = code < 8 || code == 28 ? 0 : code / 4 - 1;
    int base = code < 8 ? 3 + code : code == 28 ? MOST_MATCH : 3 + ((4 + code % 4) << extra);
    return (struct meaning){0, (uint8_t)(IS_LENGTH | extra), (uint16_t)base};
}

static struct meaning distance_meaning(int symbol) {
    if (symbol >= DISTANCES)
        return (struct meaning){0, IS_WRONG, 0};
    int extra = symbol < 4 ? 0 : symbol / 2 - 1;
    return (struct meaning){0, (uint8_t)extra, (uint16_t)(symbol < 4 ? 1 + symbol : 1 + ((2 + symbol % 2) << extra))};
}

/*
 * Makes the tables for codes of these lengths; 0 for what is no code. One that lacks something is none either, but for one
 * that has a single code of one bit, or none, and `may_lack`.
 */
static int learn_codes(struct inflate_codes *codes, const uint8_t *lengths, int symbols, struct meaning (*meaning)(int),
                      int may_lack) {
    uint16_t next[16], code[16];
    int left = 1, used = 0;
    memset(codes->number, 0, sizeof codes->number);
    for (int at = 0; at < symbols; at++)
        codes->number[lengths[at]]++, used += lengths[at] != 0;
    codes->number[0] = 0;
    next[0] = code[0] = 0;
    for (int length = 1; length <= LONGEST_CODE; length++) {
        left = 2 * left - codes->number[length];
        if (left < 0)
            return 0;
        next[length] = (uint16_t)(next[length - 1] + codes->number[length - 1]);
        code[length] = (uint16_t)((code[length - 1] + codes->number[length - 1]) << 1);
    }
    if (left && !(may_lack && (!used || (used == 1 && codes->number[1] == 1))))
        return 0;
    if (left || codes->number[12] || codes->number[13] || codes->number[14] || codes->number[15])
        memset(codes->first, 0, sizeof codes->first);
    for (int at = 0; at < symbols; at++) {
        int length = lengths[at];
        if (!length)
            continue;
        struct meaning what = meaning(at);
        what.bits = (uint8_t)length;
        codes->of[next[length]++] = what;
        uint32_t number = code[length]++;
        if (length <= FIRST_BITS)
            for (uint32_t to = reversed(number, length); to < 1u << FIRST_BITS; to += 1u << length)
                codes->first[to] = what;
    }
    return 1;
}

/* A code that is longer than FIRST_BITS, with its length; of IS_WRONG where there is none. */
static struct meaning long_code(const struct inflate_codes *codes, uint64_t held) {
    uint32_t code = 0, first = 0, index = 0;
    for (int length = 1; length <= LONGEST_CODE; length++) {
        code |= (uint32_t)(held >> (length - 1)) & 1;
        uint32_t number = codes->number[length];
        if (code < first + number)
            return codes->of[index + (code - first)];
        index += number, first = (first + number) << 1, code <<= 1;
    }
    return (struct meaning){0, IS_WRONG, 0};
}

/* The next code, taken; of IS_WRONG where there is none. At least 15 bits are held. */
static inline struct meaning next_code(const struct inflate_codes *codes, struct reading_bits *in) {
    struct meaning found = codes->first[in->held & ((1u << FIRST_BITS) - 1)];
    if (!found.bits)
        found = long_code(codes, in->held);
    in->held >>= found.bits, in->count -= found.bits;
    return found;
}

/* Makes both tables, unless they are those of the block before: most of our own files have the same codes. */
static int learn_both(struct inflater *self, int literals, int distances, int may_lack) {
    size_t total = (size_t)(literals + distances);
    if (self->literals == literals && self->distances == distances && !memcmp(self->lengths, self->known, total))
        return 1;
    self->literals = 0;
    if (!learn_codes(&self->literal, self->lengths, literals, literal_meaning, may_lack) ||
        !learn_codes(&self->distance, self->lengths + literals, distances, distance_meaning, may_lack))
        return 0;
    memcpy(self->known, self->lengths, total);
    self->literals = literals, self->distances = distances;
    return 1;
}

/* Reads the codes of a block that brings its own. */
static int read_codes(struct inflater *self, struct reading_bits *in) {
    static const uint8_t order[LENGTH_CODES] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t short_lengths[LENGTH_CODES] = {0};
    more_bits(in);
    int literals = 257 + (int)take_bits(in, 5), distances = 1 + (int)take_bits(in, 5), given = 4 + (int)take_bits(in, 4);
    if (literals > LITERALS || distances > DISTANCES)
        return 0;
    for (int at = 0; at < given; at++) {
        more_bits(in);
        short_lengths[order[at]] = (uint8_t)take_bits(in, 3);
    }
    if (!learn_codes(&self->length, short_lengths, LENGTH_CODES, literal_meaning, 0))
        return 0;
    int total = literals + distances;
    for (int at = 0; at < total;) {
        more_bits(in);
        if (is_cut(in))
            return 0;
        struct meaning found = next_code(&self->length, in);
        if (found.extra & IS_WRONG)
            return 0;
        if (found.base < 16) {
            self->lengths[at++] = (uint8_t)found.base;
            continue;
        }
        if (found.base == 16 && !at)
            return 0;
        uint8_t value = found.base == 16 ? self->lengths[at - 1] : 0;
        int times = found.base == 16 ? 3 + (int)take_bits(in, 2) : found.base == 17 ? 3 + (int)take_bits(in, 3) : 11 + (int)take_bits(in, 7);
        if (times > total - at)
            return 0;
        while (times--)
            self->lengths[at++] = value;
    }
    return self->lengths[END_OF_BLOCK] && learn_both(self, literals, distances, 1);
}

static int fixed_codes(struct inflater *self) {
    memset(self->lengths, 8, 144), memset(self->lengths + 144, 9, 112);
    memset(self->lengths + 256, 7, 24), memset(self->lengths + 280, 8, 8), memset(self->lengths + 288, 5, 32);
    return learn_both(self, 288, 32, 0);
}

/* Copies bytes that stand a distance back, of which some may only come by the copying. */
static inline void repeat(unsigned char *to, size_t distance, size_t length) {
    const unsigned char *from = to - distance;
    if (distance >= 8)
        for (size_t at = 0; at < length; at += 8)
            memcpy(to + at, from + at, 8);
    else
        for (size_t at = 0; at < length; at++)
            to[at] = from[at];
}

/* A block of codes; returns where it ends, NULL where it is wrong. */
static unsigned char *read_block(const struct inflater *self, struct reading_bits *from, const unsigned char *start,
                                 unsigned char *to, const unsigned char *end, size_t window) {
    struct reading_bits in = *from; /* of its own: what is written might be anything, this too, for all a compiler knows */
    for (;;) {
        more_bits(&in);
        struct meaning found = next_code(&self->literal, &in);
        for (int more = 2; !found.extra; more--) { /* bytes: three codes of 15 bits are held for sure */
            if (to == end)
                return NULL;
            *to++ = (unsigned char)found.base;
            if (!more)
                break;
            found = next_code(&self->literal, &in);
        }
        if (in.missing && is_cut(&in))
            return NULL;
        if (!found.extra)
            continue;
        if (found.extra & (IS_END | IS_WRONG)) {
            *from = in;
            return found.extra & IS_WRONG ? NULL : to;
        }
        more_bits(&in);
        size_t length = found.base + take_bits(&in, found.extra & EXTRA_BITS);
        struct meaning back = next_code(&self->distance, &in);
        size_t distance = back.base + take_bits(&in, back.extra & EXTRA_BITS);
        if (back.extra & IS_WRONG || distance > (size_t)(to - start) || distance > window || length > (size_t)(end - to) ||
            (in.missing && is_cut(&in)))
            return NULL;
        repeat(to, distance, length);
        to += length;
    }
}

/* Lets go of what is held but for whole bytes, which are put back. */
static void to_bytes(struct reading_bits *in) {
    take_bits(in, in->count & 7);
    in->at -= (in->count >> 3) - in->missing;
    in->held = 0, in->count = in->missing = 0;
}

static unsigned char *read_stored(struct reading_bits *in, unsigned char *to, const unsigned char *end) {
    if (is_cut(in))
        return NULL;
    to_bytes(in);
    if (in->end - in->at < 4)
        return NULL;
    size_t size = (size_t)in->at[0] | (size_t)in->at[1] << 8;
    if ((size ^ 0xffff) != ((size_t)in->at[2] | (size_t)in->at[3] << 8) || size > (size_t)(in->end - in->at - 4) ||
        size > (size_t)(end - to))
        return NULL;
    if (size)
        memcpy(to, in->at + 4, size);
    in->at += 4 + size;
    return to + size;
}

/*
 * Inflates a whole zlib stream of exactly so many bytes, its checksum right; returns whether it is one. Behind it may follow what
 * likes to. Behind the bytes there is room for INFLATE_SLACK more.
 */
static int inflate(struct inflater *self, const unsigned char *from, size_t given, unsigned char *start, size_t size) {
    struct reading_bits in = {from + 2, from + given, 0, 0, 0};
    unsigned char *to = start, *end = start + size;
    int last;
    if (given < 6 || (from[0] & 15) != 8 || from[0] >> 4 > 7 || (from[0] << 8 | from[1]) % 31 || from[1] & 32)
        return 0;
    do {
        more_bits(&in);
        last = (int)take_bits(&in, 1);
        switch (take_bits(&in, 2)) {
        case 0:
            to = read_stored(&in, to, end);
            break;
        case 1:
            to = fixed_codes(self) ? read_block(self, &in, start, to, end, (size_t)256 << (from[0] >> 4)) : NULL;
            break;
        case 2:
            to = read_codes(self, &in) ? read_block(self, &in, start, to, end, (size_t)256 << (from[0] >> 4)) : NULL;
            break;
        default:
            to = NULL;
        }
    } while (to && !last);
    if (to != end || is_cut(&in))
        return 0;
    to_bytes(&in);
    return in.end - in.at >= 4 && load_be32(in.at) == adler32(start, size);
}
