/** Search parameters of a page: plain strings, so that a URL can be read and edited by hand. */
export type TextSearch<Name extends string> = { [name in Name]?: string };

/** Parses the query of a URL; of repeated names the last counts. */
export function parseSearch(text: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(text));
}

/** Writes the query of a URL with its question mark; empty values are left out. */
export function stringifySearch(search: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** Returns a function that keeps only these parameters, as a route's `validateSearch`. */
export function keepText<Name extends string>(...names: Name[]) {
  return (search: Record<string, unknown>): TextSearch<Name> => {
    const kept: TextSearch<Name> = {};
    for (const name of names) {
      const value = search[name];
      if (typeof value === 'string' && value !== '') kept[name] = value;
    }
    return kept;
  };
}

/**
 * Returns the path to open after a login. Only a path of the console is accepted: a link from elsewhere must not
 * lead away.
 */
export function safeNext(next: string | undefined): string {
  if (next === undefined || !next.startsWith('/') || /^\/[/\\]/.test(next)) return '/';
  // URL parsers drop tabs and line ends, which would make `/\t/host` an address of another host.
  return /[\p{Cc}\\]/u.test(next) || next.startsWith('/login') ? '/' : next;
}
