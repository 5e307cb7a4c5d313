/** Quotes a text for a POSIX shell. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * Writes the command that sends a push, with the key as a shell variable: a command is copied into chats and logs.
 *
 * @param api base URL of the HTTP API
 * @param body JSON text
 */
export function sendCommand(api: string, body: string): string {
  return [
    `curl ${doubleQuote(`${api}/push?api_key=`, '$CARILLON_API_KEY')} \\`,
    `  -H ${shellQuote('Content-Type: application/json')} \\`,
    `  -d ${shellQuote(body)}`,
  ].join('\n');
}

/** Writes the command that reads the state of a push. */
export function statusCommand(api: string, push: string): string {
  const path = `${api}/pushes/${encodeURIComponent(push)}?api_key=`;
  return `curl ${doubleQuote(path, '$CARILLON_API_KEY')}`;
}

/** Quotes a text so that the shell variable at its end is replaced and nothing else. */
function doubleQuote(text: string, variable: string): string {
  return `"${text.replaceAll(/["\\$`]/g, '\\$&')}${variable}"`;
}
