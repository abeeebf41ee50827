import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** The width of an element in CSS pixels, kept up to date. */
export function useWidth<E extends HTMLElement>(initial = 640) {
  const ref = useRef<E>(null);
  const [width, setWidth] = useState(initial);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => setWidth(Math.max(element.clientWidth, 1));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width] as const;
}
