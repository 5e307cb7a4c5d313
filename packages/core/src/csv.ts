/** A value of a CSV field; absent values are empty fields, objects are written as JSON. */
export type CsvValue = string | number | boolean | object | undefined;

/**
 * Characters with which a spreadsheet begins a formula, and the apostrophe that marks a guarded text. Numbers of an
 * export are never negative.
 */
const GUARDED = /^[=+\-@\t\r']/;
const NEEDS_QUOTES = /[",\r\n]/;

/**
 * Formats a record (RFC 4180, with CR LF at its end). A text that a spreadsheet would run as a formula gets an
 * apostrophe in front, which {@link parseCsvRecord} with `isGuarded` removes.
 */
export function formatCsvRecord(values: readonly CsvValue[]): string {
  return `${values.map(formatField).join(',')}\r\n`;
}

function formatField(value: CsvValue): string {
  if (value === undefined) return '';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  const guarded = GUARDED.test(text) ? `'${text}` : text;
  return NEEDS_QUOTES.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}

/**
 * Parses one record without its line end (RFC 4180).
 *
 * @param isGuarded removes the apostrophes that {@link formatCsvRecord} has added
 */
export function parseCsvRecord(text: string, isGuarded = false): string[] {
  const fields: string[] = [];
  let at = 0;
  for (;;) {
    const { value, end } = text[at] === '"' ? readQuoted(text, at) : readPlain(text, at);
    fields.push(
      isGuarded && value.startsWith("'") && GUARDED.test(value.slice(1)) ? value.slice(1) : value,
    );
    if (end >= text.length) return fields;
    at = end + 1;
  }
}

function readPlain(text: string, start: number): { value: string; end: number } {
  const comma = text.indexOf(',', start);
  const end = comma < 0 ? text.length : comma;
  return { value: text.slice(start, end), end };
}

function readQuoted(text: string, start: number): { value: string; end: number } {
  let at = start + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    const isDoubled = quote >= 0 && text[quote + 1] === '"';
    if (isDoubled) {
      at = quote + 2;
      continue;
    }
    const close = quote < 0 ? text.length : quote;
    const comma = text.indexOf(',', close);
    const value = text.slice(start + 1, close).replaceAll('""', '"');
    return { value, end: comma < 0 ? text.length : comma };
  }
}
