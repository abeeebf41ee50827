/** What is left out of names has this in its place. */
const LEFT_OUT = "…";
/** Names up to this length are shown whole, as are those that share less than so many characters. */
const SHORT = 24;
const LEAST = 6;

/**
 * The beginning that most of the long names share, up to the end of a part: `MobileNet_blocks_` of
 * `MobileNet_blocks_1_conv`. Empty if they share little.
 */
export function sharedBeginning(names: readonly string[]): string {
  const long = names.filter((name) => name.length > SHORT);
  let shared = "";
  for (let among = long; ; ) {
    const counts = new Map<string, number>();
    for (const name of among) {
      const part = /^[^_/.]+[_/.]+/.exec(name.slice(shared.length))?.[0];
      if (part) counts.set(part, (counts.get(part) ?? 0) + 1);
    }
    const [part, count] = [...counts].reduce((most, one) => (one[1] > most[1] ? one : most), ["", 0]);
    if (count <= long.length / 2) return shared.length < LEAST ? "" : shared;
    shared += part;
    among = among.filter((name) => name.startsWith(shared));
  }
}

/** The last two parts of a name, which tell it from others: `_norm_weight` of `encoder_layer_12_norm_weight`; empty for names of few parts. */
export const lastParts = (name: string): string => (/[^/_.][/_.]+[^/_.]+[/_.]+[^/_.]+$/.exec(name)?.[0] ?? "").slice(1);

/** A name without the beginning that it shares with others, so that there is room for its own part. */
export const shortName = (name: string, shared: string): string =>
  shared && name.length > SHORT && name.startsWith(shared) ? LEFT_OUT + name.slice(shared.length) : name;
