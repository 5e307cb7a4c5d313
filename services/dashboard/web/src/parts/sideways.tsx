import type { ReactNode } from 'react';

/** Properties of a scrolling area, so that the keyboard reaches it. */
const SCROLLABLE = { tabIndex: 0, style: { overflowX: 'auto' } } as const;

interface SidewaysProps {
  /** Names what scrolls, for screen readers. */
  label: string;
  /** Width in pixels below which the content scrolls. */
  minWidth?: number;
  children: ReactNode;
}

/** Shows a table that scrolls sideways where the page is too narrow for it. */
export function Sideways({ label, minWidth = 0, children }: SidewaysProps) {
  return (
    <section aria-label={label} {...SCROLLABLE}>
      <div style={{ minWidth }}>{children}</div>
    </section>
  );
}
