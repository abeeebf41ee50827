import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";

/** The range of rows of a long list that is in view, plus a few on either side. All rows have the same height.
 *
 * The list is rendered again only when scrolling leaves the rendered rows; until then the browser moves them.
 */
export function useWindow(total: number, rowHeight: number, overscan = 12) {
  const ref = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, last: Math.min(total, 60) });
  const measure = useCallback(() => {
    const element = ref.current;
    if (!element) return;
    const top = Math.floor(element.scrollTop / rowHeight);
    const bottom = Math.ceil((element.scrollTop + element.clientHeight) / rowHeight);
    setRange((old) => {
      const isCovered = old.first <= Math.max(top - 4, 0) && old.last >= Math.min(bottom + 4, total) && old.last <= total;
      if (isCovered && old.last - old.first <= bottom - top + 3 * overscan) return old;
      return { first: Math.max(top - overscan, 0), last: Math.min(bottom + overscan, total) };
    });
  }, [total, rowHeight, overscan]);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, [measure]);
  const reveal = useCallback(
    (index: number) => {
      const element = ref.current;
      if (!element) return;
      const [top, bottom] = [index * rowHeight, (index + 1) * rowHeight];
      if (top < element.scrollTop) element.scrollTop = top;
      else if (bottom > element.scrollTop + element.clientHeight - rowHeight) element.scrollTop = bottom - element.clientHeight + rowHeight;
    },
    [rowHeight],
  );
  const last = Math.min(range.last, total);
  return { ref, first: Math.min(range.first, last), last, reveal };
}
