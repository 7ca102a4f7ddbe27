// A list of which only the rows on the screen exist.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { html } from "htm/preact";
import { useLayoutEffect, useReducer, useRef } from "preact/hooks";

/**
 * Shows `rows`; `size(row)` is the height of one, `draw(row, at)` draws it. `handle.current` can scroll to a row. `onTop(row)` is
 * called with the row at the upper edge; what `stuck(row)` draws of it stays there. `active` is the id of the row that keys act on.
 */
export function VirtualList({ rows, size, draw, tag = "div", handle, onEnd, onTop, stuck, label, className, role, active }) {
  const box = useRef(null);
  const [, again] = useReducer((count) => count + 1, 0);
  const made = useRef(null);
  const before = useRef(null);
  const options = {
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: (at) => size(rows[at]),
    getItemKey: (at) => rows[at].id,
    overscan: 10,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => again(),
  };
  made.current ||= new Virtualizer(options);
  const virtual = made.current;
  virtual.setOptions(options);
  if (before.current !== rows) {
    before.current = rows;
    virtual.measure();
  }
  if (handle) handle.current = virtual;
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const top = onTop || stuck ? rows[items.find((item) => item.end > (virtual.scrollOffset ?? 0))?.index] : null;
  useLayoutEffect(() => {
    if (onEnd && rows.length && last >= rows.length - 30) onEnd();
  }, [last, rows.length]);
  useLayoutEffect(() => onTop?.(top), [top]);
  const Row = tag === "ul" ? "li" : "div";
  return html`<div ref=${box} class="scroll ${className || ""}" tabindex="0" role=${role || "group"} aria-label=${label} aria-activedescendant=${active}>
    ${stuck && top ? html`<div class="stuck">${stuck(top)}</div>` : null}
    <${tag} class="rows" role=${role === "tree" ? "none" : null} style=${{ height: virtual.getTotalSize() + "px" }}>
      ${items.map((item) => {
        const found = rows[item.index];
        return html`<${Row} key=${item.key} class="at" style=${{ height: item.size + "px", transform: `translateY(${item.start}px)` }} ...${draw.attributes?.(found, item.index) || {}}>${draw(found, item.index)}<//>`;
      })}
    <//>
  </div>`;
}
