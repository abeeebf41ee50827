/** The indices of those that no other beats: none costs no more and has a better quality. */
export function bestOf(costs: readonly number[], qualities: readonly number[]): Set<number> {
  const at = (list: readonly number[], index: number) => list[index] ?? 0;
  const ordered = costs.map((_, index) => index);
  ordered.sort((a, b) => at(costs, a) - at(costs, b) || at(qualities, b) - at(qualities, a));
  let best: number | null = null;
  const found = new Set<number>();
  for (const index of ordered) {
    const quality = at(qualities, index);
    if (best !== null && quality <= best) continue;
    found.add(index);
    best = quality;
  }
  return found;
}
