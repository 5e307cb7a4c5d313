import { readFileSync } from 'node:fs';

/** A script of the folder `scripts`. Its header names KEYS, ARGV and the result. */
export type ScriptName =
  | 'acquire-slot'
  | 'add-figures'
  | 'count-events'
  | 'read-time'
  | 'refresh-presence'
  | 'report-circuits'
  | 'unregister-presence';

/** Reads a Lua script without its comments, which would be sent with each call. */
export function readScript(name: ScriptName): string {
  const text = readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8');
  return text.replaceAll(/^--.*\n/gm, '').trim();
}
