/** The parts of JSON by which a number keeps its text (ECMAScript, "JSON.parse source text access"); its types lack them. */
interface ExactJson {
  parse(
    text: string,
    revive: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
}
const exactJson = JSON as unknown as ExactJson;

/**
 * Parses a JSON text; JSON.stringify writes each number of it as it was: a double would round large ones.
 *
 * @param text must be valid
 */
export function parseExactJson(text: string): unknown {
  return exactJson.parse(text, (_key, value, { source = '' }) =>
    typeof value === 'number' && String(value) !== source ? exactJson.rawJSON(source) : value,
  );
}

function isJsonObject(value: unknown): value is Record<string, unknown> {
  const isContainer = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isContainer && !exactJson.isRawJSON(value);
}

/**
 * Merges a patch over a JSON value: null removes a field, an object is merged, anything else replaces (RFC 7396).
 *
 * @param patch nested a few levels at most
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch;
  // A Map, because to assign `__proto__` would not make a field.
  const merged = new Map(isJsonObject(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name);
    else merged.set(name, mergePatch(merged.get(name), value));
  }
  return Object.fromEntries(merged);
}

/**
 * Merges a patch over a JSON text.
 *
 * @param patch undefined: the text stays unchanged
 */
export function mergeJsonText(text: string, patch: unknown): string {
  return patch === undefined ? text : JSON.stringify(mergePatch(parseExactJson(text), patch));
}
