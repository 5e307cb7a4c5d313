const ESCAPES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes a text for HTML, also for attributes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '');
}

/** Escapes a text for HTML and renders `…` as code. */
export function renderProse(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}

/** Renders a name as code that may wrap only after its dots. */
export function renderName(name: string): string {
  return `<code>${escapeHtml(name).replaceAll('.', '.<wbr>')}</code>`;
}

/** Renders a block of code. Long lines scroll; the block is focusable, so that it scrolls by keyboard too. */
export function renderCodeBlock(text: string): string {
  return `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>`;
}

/** Renders a value as a block of JSON. */
export function renderJsonBlock(value: unknown): string {
  return renderCodeBlock(JSON.stringify(value, null, 2));
}

/** Renders a table that scrolls by itself if it is too wide. */
export function renderTable(label: string, headings: readonly string[], rows: string): string {
  const columns = headings.map((head) => `<th>${head}</th>`).join('');
  return `<div class="wide" role="group" aria-label="${label}" tabindex="0"><table><thead><tr>${columns}</tr></thead><tbody>${rows}</tbody></table></div>`;
}
