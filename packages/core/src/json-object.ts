import { removeFields } from './json-text.ts';

/**
 * Appends fields to the JSON text of an object without parsing it, so that its numbers, keys and order stay unchanged.
 * They replace fields of the same names: of two equal keys, parsers take one or the other, or refuse the text (RFC
 * 8259, 4).
 *
 * @param objectText JSON text of an object; must be valid
 * @param fields values for JSON.stringify; undefined ones are omitted, and replace nothing
 */
export function appendJsonFields(objectText: string, fields: Record<string, unknown>): string {
  const names = Object.keys(fields).filter((name) => fields[name] !== undefined);
  const existing = removeFields(objectText, names).trim().slice(1, -1).trim();
  const appended = JSON.stringify(fields).slice(1, -1);
  return `{${existing}${existing !== '' && appended !== '' ? ',' : ''}${appended}}`;
}
