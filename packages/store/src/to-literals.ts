/** Converts fields to those of an update pipeline, in which a text that begins with `$` would be an expression. Absent values are left out. */
export function toLiterals(fields: object): Record<string, { $literal: unknown }> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, { $literal: value }]));
}
