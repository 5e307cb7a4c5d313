/**
 * Adds fields to a JSON object that stays text, so that every number, key and order of it comes out exactly as it
 * went in. They go last: readers take the later of two equal keys (RFC 8259, 4, leaves it open; parsers agree).
 *
 * @param objectText JSON text of an object; not checked
 * @param fields values for JSON.stringify; undefined ones are left out
 */
export function withFields(objectText: string, fields: Record<string, unknown>): string {
  const own = objectText.trim().slice(1, -1).trim();
  const added = JSON.stringify(fields).slice(1, -1);
  return `{${own}${own !== '' && added !== '' ? ',' : ''}${added}}`;
}
