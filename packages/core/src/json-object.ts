/**
 * Appends fields to the JSON text of an object without parsing it, so that its numbers, keys and order stay unchanged.
 * The fields go last, because parsers take the last of two equal keys (RFC 8259, 4, leaves it open; parsers agree).
 *
 * @param objectText JSON text of an object; not validated
 * @param fields values for JSON.stringify; undefined ones are omitted
 */
export function appendJsonFields(objectText: string, fields: Record<string, unknown>): string {
  const existing = objectText.trim().slice(1, -1).trim();
  const appended = JSON.stringify(fields).slice(1, -1);
  return `{${existing}${existing !== '' && appended !== '' ? ',' : ''}${appended}}`;
}
