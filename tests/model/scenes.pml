/* Which messages are put. `options` sets those of the message `next`. */

#if defined SCENE_LEASE || defined SCENE_CIRCLE || defined SCENE_ANY
#define PUTS 2
#elif defined SCENE_ORDER || defined SCENE_DEDUPE || defined SCENE_MIXED
#define PUTS 3
#else
#define PUTS 4
#endif

#ifdef SCENE_BOUNDED
#define LIMIT 2
#else
#define LIMIT 255 /* none */
#endif

#define MAYBE(change) if :: change :: skip fi

inline options() {
#if defined SCENE_LEASE
    skip
#elif defined SCENE_ORDER /* a line whose second message may outlive its time */
    keyed[next] = true;
    life[next] = (next == 1 -> LIMITED : NO_LIMIT)
#elif defined SCENE_LINE
    keyed[next] = true
#elif defined SCENE_AFTER /* a diamond */
    upstream[next] = (next == 0 -> 0 : (next == 3 -> BIT(1) | BIT(2) : BIT(0)))
#elif defined SCENE_CIRCLE /* a message that comes after another one of its key */
    keyed[next] = true;
    upstream[next] = (next == 1 -> BIT(0) : 0)
#elif defined SCENE_DEDUPE
    deduped[next] = true;
    life[next] = (next == 0 -> LIMITED : NO_LIMIT)
#elif defined SCENE_BOUNDED /* a line, and a message that comes after one that may be dropped */
    keyed[next] = next < 3;
    upstream[next] = (next == 3 -> BIT(1) : 0)
#elif defined SCENE_MIXED /* each with or without the key, after any that were put before it */
    MAYBE(keyed[next] = true);
    MAYBE(upstream[next] = (next > 0 -> BIT(0) : 0));
    MAYBE(upstream[next] = (next > 1 -> upstream[next] | BIT(1) : upstream[next]))
#elif defined SCENE_ANY /* each with any options */
    MAYBE(keyed[next] = true);
    MAYBE(deduped[next] = true);
    MAYBE(life[next] = LIMITED);
    MAYBE(upstream[next] = (next > 0 -> BIT(0) : 0))
#endif
}
